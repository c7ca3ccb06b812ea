//! OpenAPI schemas of texts that are more than a text. Everything else derives its own.

use crate::{EventId, ExportId, ImageDigest, RunId, ScheduleId, TenantId, Timestamp};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn id(what: &str) -> Object {
    text()
        .description(Some(what))
        .min_length(Some(1))
        .max_length(Some(256))
        .pattern(Some(r"^[^\x00-\x1f\x7f-\x9f]+$"))
        .build()
}

macro_rules! schemas {
    ($($name:ident => $schema:expr;)*) => {
        $(
            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    RefOr::T(Schema::Object($schema))
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    stringify!($name).into()
                }
            }
        )*
    };
}

schemas! {
    TenantId => text()
        .description(Some("A tenant."))
        .pattern(Some("^[A-Za-z0-9_-]{1,64}$"))
        .examples(["default"])
        .build();
    ImageDigest => text()
        .description(Some("The digest that names an image."))
        .pattern(Some("^sha256:[0-9a-f]{64}$"))
        .examples(["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])
        .build();
    Timestamp => text()
        .description(Some("RFC 3339; answers are in UTC, with milliseconds and `Z`."))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-29T02:00:00.000Z"])
        .build();
    ScheduleId => id("The id of a schedule; opaque.");
    RunId => id("The id of a run; opaque.");
    EventId => id("The id of an accepted delivery; opaque.");
    ExportId => id("The sender's name of an export.");
}
