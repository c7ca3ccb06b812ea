//! The codes of problems: a closed set, each with its status and what it means. The reference page is written from it.

use axum::http::StatusCode;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! codes {
    ($($name:ident = $status:ident, $code:literal, $meaning:literal;)*) => {
        /// What went wrong, for programs. A code does not change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in a problem document.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The status that it comes with.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// What it means, and the way out.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    BadEncoding = BAD_REQUEST, "bad-encoding",
        "the body cannot be decompressed as its `Content-Encoding` says";
    BadInput = BAD_REQUEST, "bad-input",
        "a value that cannot be read or is out of range; `errors` says where";
    BadSignature = UNAUTHORIZED, "bad-signature",
        "no, a wrong, a stale or an unknown signature; `detail` says which";
    BodyCut = BAD_REQUEST, "body-cut",
        "the body ended before its end, or came too slowly";
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body-too-large",
        "over `limits.maxBodyBytes`, as sent or after decompression; of a bulk upload, one line";
    Busy = SERVICE_UNAVAILABLE, "busy",
        "as many large bodies are received, or connections open, as there is room for; nothing was done";
    Conflict = CONFLICT, "conflict",
        "somebody else changed it meanwhile; read it again";
    DocumentTooLarge = PAYLOAD_TOO_LARGE, "document-too-large",
        "an SBOM with more components or deeper nesting than is read";
    IdempotencyKeyReused = CONFLICT, "idempotency-key-reused",
        "the key has started a run with other content; use a new key";
    ImpossibleInput = UNPROCESSABLE_ENTITY, "impossible-input",
        "well-formed, but it contradicts itself or asks for what is not there; `errors` says where";
    IndexBusy = CONFLICT, "index-busy",
        "a rebuild of the index is under way";
    IndexUnavailable = SERVICE_UNAVAILABLE, "index-unavailable",
        "the index cannot be verified or rebuilt just now";
    Internal = INTERNAL_SERVER_ERROR, "internal",
        "an error of the service; its log has the cause";
    LimitReached = TOO_MANY_REQUESTS, "limit-reached",
        "a limit of the tenant or of the inbox; `detail` names it";
    MalformedJson = BAD_REQUEST, "malformed-json",
        "no JSON; `detail` has line and column";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed",
        "the address does not take that method";
    NameTaken = CONFLICT, "name-taken",
        "the tenant has a schedule of that name";
    NotFound = NOT_FOUND, "not-found",
        "there is no such thing for this tenant";
    RunAlreadyEnded = CONFLICT, "run-already-ended",
        "an ended run cannot be cancelled";
    StaleEtag = PRECONDITION_FAILED, "stale-etag",
        "`If-Match` names another version; read it again";
    StoreUnavailable = SERVICE_UNAVAILABLE, "store-unavailable",
        "the store cannot be read or written just now (also: a full disk); nothing was done";
    TooManyKeys = PAYLOAD_TOO_LARGE, "too-many-keys",
        "a list is over `limits.maxKeysPerEvent`";
    TooManyLines = PAYLOAD_TOO_LARGE, "too-many-lines",
        "a bulk upload has too many lines; those from here on were not taken";
    TooManyStreams = SERVICE_UNAVAILABLE, "too-many-streams",
        "the process, or the tenant, has as many event streams as it may";
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported-encoding",
        "`Content-Encoding` is neither gzip nor zstd";
    UnsupportedFormat = UNSUPPORTED_MEDIA_TYPE, "unsupported-format",
        "no SBOM, or a format or version that is not read; `detail` names those that are";
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type",
        "the body is no JSON by its `Content-Type`";
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let codes = Self::ALL.iter().map(|code| code.as_str());
        RefOr::T(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).into())
    }
}

impl ToSchema for Code {}
