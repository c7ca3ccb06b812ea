"""What schemathesis cannot know from the document: how webhooks are signed, and what texts of our formats look like."""

import base64
import hashlib
import hmac
import os
import re
import time

import requests
import schemathesis
from hypothesis import strategies as st

SECRET = os.environ["SCHEMATHESIS_WEBHOOK_SECRET"].encode()


class Signature(requests.auth.AuthBase):
    """Signs the bytes as they are sent."""

    def __call__(self, request):
        source = "vexer" if "vexer" in request.path_url else "feedser"
        now = int(time.time())
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        signed = hmac.new(SECRET, b"%d.%s" % (now, body), hashlib.sha256).digest()
        request.headers["X-Scheduler-Signature"] = \
            f"keyId={source}-1,t={now},alg=hmac-sha256,sig={base64.b64encode(signed).decode()}"
        return request


schemathesis.auth.set_from_requests(Signature()).apply_to(path_regex=r"events/(feedser|vexer)-export$")

name = st.from_regex(r"[a-z][a-z0-9]{0,12}", fullmatch=True)
purl = st.builds(lambda kind, name, version: f"pkg:{kind}/{name}{version}", st.sampled_from(["npm", "pypi", "deb/debian", "rpm", "cargo"]),
                 name, st.sampled_from(["", "@1.0", "@2.1.3-4"]))
schemathesis.openapi.format("purl", purl)
schemathesis.openapi.format("cron", st.sampled_from(["0 2 * * *", "*/15 * * * *", "@daily", "0 0 12 ? * MON-FRI", "0 30 4 L * ?", "5 4 * * 7"]))
schemathesis.openapi.format("time-zone", st.sampled_from(["UTC", "Europe/Sofia", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]))
schemathesis.openapi.format("roaring-bitmap", st.sampled_from(["OjAAAAAAAAA=", "OjAAAAAAAAA"]))
# Empty is the first page; other cursors are opaque.
schemathesis.openapi.format("cursor", st.just(""))


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return {"data": value.encode() if isinstance(value, str) else b""}


@schemathesis.hook
def before_call(context, case, kwargs):
    """JSON Schema takes 5.0 for a whole number. Whoever writes one to us writes 5. And what one tenant makes, no other one sees: every
    tenant that can be one is the same one here."""
    case.body = whole(case.body)
    if re.fullmatch("[A-Za-z0-9_-]{1,64}", str((case.headers or {}).get("X-Tenant-Id", ""))):
        case.headers["X-Tenant-Id"] = "default"


def whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value
