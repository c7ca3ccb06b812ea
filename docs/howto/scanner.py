"""A stand-in for a scanner: it finds the same vulnerability in every image that it is asked about."""
import http.server
import json


class Scanner(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        finding = {"purl": "pkg:deb/debian/libssl3@3.0.11-1~deb12u2", "vulnId": "CVE-2026-1234", "severity": "critical"}
        answer = json.dumps({"imageDigest": asked["imageDigest"], "verdict": "fail", "findings": [finding]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", 9090), Scanner).serve_forever()
