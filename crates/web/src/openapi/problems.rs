//! The problems of each kind of operation, as responses. An operation names one of these beside its own answers.

use crate::code::Code;
use crate::problem::{Problem, ProblemDocument};
use std::collections::BTreeMap;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, Type};
use utoipa::{IntoResponses, ToSchema};

/// What may come of every request of a tenant.
const ANY: &[Code] = &[Code::BadInput, Code::Internal, Code::StoreUnavailable];

/// What comes on top when there is a body.
const BODY: &[Code] =
    &[Code::BadEncoding, Code::BodyCut, Code::BodyTooLarge, Code::Busy, Code::MalformedJson, Code::UnsupportedEncoding];

/// What comes on top when that body is one JSON document of ours.
const JSON: &[Code] = &[Code::UnsupportedMediaType];

macro_rules! problems {
    ($($(#[doc = $doc:literal])* $name:ident: $($codes:expr),*;)*) => {
        $(
            $(#[doc = $doc])*
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    responses(&[$($codes),*])
                }
            }
        )*
    };
}

problems! {
    /// A list.
    OfList: ANY;
    /// Something that is named in the path.
    OfOne: ANY, &[Code::NotFound];
    /// A change of a stored thing by its ETag.
    OfVersioned: ANY, &[Code::NotFound, Code::StaleEtag];
    /// Readiness: no tenant is asked.
    OfReadiness: &[Code::Internal, Code::StoreUnavailable];
    /// Metrics, which may be served elsewhere.
    OfMetrics: &[Code::NotFound];
    /// A new schedule.
    OfNewSchedule: ANY, BODY, JSON, &[Code::NameTaken, Code::ImpossibleInput];
    /// A patch of a schedule.
    OfPatch: ANY, BODY, JSON, &[Code::NameTaken, Code::NotFound, Code::ImpossibleInput, Code::StaleEtag];
    /// A question with a body.
    OfQuestion: ANY, BODY, JSON;
    /// A question about keys.
    OfPreview: ANY, BODY, JSON, &[Code::ImpossibleInput, Code::TooManyKeys];
    /// A run that is to begin.
    OfNewRun: ANY, BODY, JSON,
        &[Code::NotFound, Code::IdempotencyKeyReused, Code::ImpossibleInput, Code::LimitReached, Code::TooManyKeys];
    /// A run that is to end.
    OfCancel: ANY, &[Code::NotFound, Code::RunAlreadyEnded];
    /// A sidecar.
    OfSidecar: ANY, BODY, &[Code::DocumentTooLarge, Code::ImpossibleInput, Code::UnsupportedFormat];
    /// An SBOM.
    OfSbom: ANY, BODY, &[Code::DocumentTooLarge, Code::ImpossibleInput, Code::UnsupportedFormat];
    /// Many sidecars: what is wrong with a line stands in its answer.
    OfBulk: &[Code::BadInput, Code::UnsupportedEncoding];
    /// An export.
    OfExport: ANY, BODY, &[Code::BadSignature, Code::LimitReached, Code::NotFound, Code::TooManyKeys];
    /// A policy revision.
    OfPolicy: ANY, BODY, JSON, &[Code::LimitReached];
    /// Work on the index.
    OfIndexWork: &[Code::IndexBusy, Code::IndexUnavailable, Code::Internal, Code::StoreUnavailable];
    /// The event stream.
    OfStream: ANY, &[Code::TooManyStreams];
}

/// A response for each status of the codes.
fn responses(lists: &[&[Code]]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in lists.iter().copied().flatten() {
        by_status.entry(code.status().as_u16()).or_default().push(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), RefOr::T(response(status, codes)))).collect()
}

/// One problem document of each code.
pub fn examples() -> impl Iterator<Item = (String, RefOr<Example>)> {
    Code::ALL.iter().map(|code| {
        let document = Problem::new(*code, code.meaning()).document();
        (code.as_str().to_owned(), ExampleBuilder::new().value(Some(document)).into())
    })
}

fn response(status: u16, mut codes: Vec<Code>) -> Response {
    codes.sort_unstable();
    let meanings: Vec<String> = codes.iter().map(|code| format!("- `{}`: {}", code.as_str(), code.meaning())).collect();
    let examples = codes.iter().map(|code| {
        let name = code.as_str();
        (name, RefOr::<Example>::Ref(Ref::new(format!("#/components/examples/{name}"))))
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(ProblemDocument::name())))
        .examples_from_iter(examples)
        .build();
    let mut response =
        ResponseBuilder::new().description(meanings.join("\n")).content("application/problem+json", content);
    if matches!(status, 429 | 503) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
        let header =
            HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds until it is worth trying again."));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}
