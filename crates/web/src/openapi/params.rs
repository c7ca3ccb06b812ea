//! Parameters that several operations take.
#![expect(dead_code, reason = "these types describe; handlers read the headers and the query themselves")]

use scheduler_model::TenantId;
use utoipa::IntoParams;

/// Whose request it is.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct TenantHeader {
    /// The tenant; without the header it is `default`.
    #[param(nullable = false, rename = "X-Tenant-Id", inline)]
    tenant: Option<TenantId>,
}

/// Which page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The most items of the answer.
    #[param(nullable = false, minimum = 1, maximum = 500, default = 50)]
    limit: Option<u16>,
    /// `nextCursor` of the page before; empty: the first page.
    #[param(nullable = false, format = "cursor")]
    cursor: Option<String>,
}

/// Which version a change is for.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatch {
    /// The `ETag` of what was read; without it, or with `*`, the change is for whatever stands.
    #[param(nullable = false, rename = "If-Match", example = "\"3\"")]
    if_match: Option<String>,
}

/// Texts that are more than a text.
pub mod texts {
    use utoipa::ToSchema;

    /// A package URL, with or without version.
    #[derive(ToSchema)]
    #[schema(as = ProductKey, format = "purl", example = "pkg:deb/debian/openssl")]
    pub struct ProductKeyText(String);

    /// A cron expression: 5 fields, 6 with leading seconds, 7 with a trailing year, or a name such as `@daily`.
    #[derive(ToSchema)]
    #[schema(as = Cron, format = "cron", example = "0 2 * * *")]
    pub struct CronText(String);

    /// An IANA time zone.
    #[derive(ToSchema)]
    #[schema(as = TimeZone, format = "time-zone", example = "Europe/Sofia")]
    pub struct TimeZoneText(String);
}
