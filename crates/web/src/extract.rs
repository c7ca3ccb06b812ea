//! What every request carries: the tenant, the page of a list, ids in the path.

use crate::problem::Problem;
use crate::state::App;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scheduler_core::ports::Page;
use scheduler_model::TenantId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// The header that names the tenant where no token does.
const TENANT_HEADER: &str = "x-tenant-id";

/// The caller's tenant.
pub struct Tenant(pub TenantId);

impl FromRequestParts<Arc<App>> for Tenant {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(TENANT_HEADER).iter();
        let name = match (values.next(), values.next()) {
            (None, _) => "default",
            (Some(value), None) => value.to_str().unwrap_or_default(),
            (Some(_), Some(_)) => return Err(Problem::bad_input("X-Tenant-Id", "the header may occur once")),
        };
        TenantId::try_from(name.to_owned()).map(Self).map_err(|e| Problem::bad_input("X-Tenant-Id", e.to_string()))
    }
}

/// The parameters of a query, each at most once where it is asked for by [`Params::one`].
pub struct Params(Vec<(String, String)>);

impl FromRequestParts<Arc<App>> for Params {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        Query::<Vec<(String, String)>>::from_request_parts(parts, app)
            .await
            .map(|query| Self(query.0))
            .map_err(|_| Problem::bad_input("?", "the query cannot be read"))
    }
}

impl Params {
    /// The value of a parameter that may be there once.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        let value = values.next();
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Problem::bad_input(format!("?{name}"), "this parameter may be given once")),
        }
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A value that has to be read, if it is there.
    pub fn read<T: std::str::FromStr>(&self, name: &str, wanted: &str) -> Result<Option<T>, Problem> {
        self.one(name)?
            .map(|text| {
                text.parse().map_err(|_| {
                    Problem::bad_input(
                        format!("?{name}"),
                        format!("`{}` is not {wanted}", text.chars().take(64).collect::<String>()),
                    )
                })
            })
            .transpose()
    }

    /// A word out of an enum that serde reads, if it is there.
    pub fn word<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.one(name)?
            .map(|text| {
                serde_json::from_value(serde_json::Value::String(text.to_owned()))
                    .map_err(|e| Problem::bad_input(format!("?{name}"), e.to_string()))
            })
            .transpose()
    }

    /// Which page of a list is wanted; a cursor of another list is refused.
    pub fn page(&self, list: List) -> Result<PageRequest, Problem> {
        let limit: usize = self.read("limit", "a number from 1 to 500")?.unwrap_or(50);
        if !(1..=500).contains(&limit) {
            return Err(Problem::bad_input("?limit", format!("{limit} is not between 1 and 500")));
        }
        let after = self
            .one("cursor")?
            // A script's first round has an empty variable here.
            .filter(|cursor| !cursor.is_empty())
            .map(|cursor| {
                list.position(cursor).ok_or_else(|| Problem::bad_input("?cursor", "this is no cursor of this list"))
            })
            .transpose()?;
        Ok(PageRequest { limit, after })
    }
}

/// The lists that come in pages. A cursor carries its list's letter before the position, so that it opens no other list.
#[derive(Debug, Clone, Copy)]
pub enum List {
    /// `GET /schedules`.
    Schedules,
    /// `GET /runs`.
    Runs,
    /// `GET /runs/{id}/images`.
    Outcomes,
    /// `GET /images`.
    Images,
    /// `GET /images/{digest}/history`.
    History,
    /// `GET /cursors`.
    Cursors,
}

impl List {
    fn letter(self) -> char {
        match self {
            Self::Schedules => 's',
            Self::Runs => 'r',
            Self::Outcomes => 'o',
            Self::Images => 'i',
            Self::History => 'h',
            Self::Cursors => 'c',
        }
    }

    fn cursor(self, position: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}{position}", self.letter()))
    }

    fn position(self, cursor: &str) -> Option<String> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        text.strip_prefix(self.letter()).map(str::to_owned)
    }
}

/// Which page of a list is wanted.
pub struct PageRequest {
    /// The most items.
    pub limit: usize,
    /// Where to go on.
    pub after: Option<String>,
}

/// A page as it is answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Page)]
pub struct Listed<T> {
    /// The items of this page.
    items: Vec<T>,
    /// `cursor` of the next page; null after the last one.
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    /// From a page of the store, each item in the form that is shown.
    pub fn new<S>(list: List, page: Page<S>, show: impl FnMut(S) -> T) -> Self {
        Self::of(list, page.items.into_iter().map(show).collect(), page.next)
    }

    /// Items that were found on the way to a position of the list.
    pub fn of(list: List, items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next_cursor: next.map(|position| list.cursor(&position)) }
    }
}

/// The id in the path. One that is no text names nothing.
pub struct PathId(pub String);

impl FromRequestParts<Arc<App>> for PathId {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        axum::extract::Path::<String>::from_request_parts(parts, app)
            .await
            .map(|path| Self(path.0))
            .map_err(|_| Problem::not_found("resource at this address"))
    }
}

/// An id out of the path; one that cannot be an id names nothing, so it is a 404.
pub fn path_id<T: TryFrom<String>>(text: String, what: &str) -> Result<T, Problem> {
    let shown: String = text.chars().take(80).collect();
    T::try_from(text).map_err(|_| Problem::not_found(format!("{what} {shown}")))
}

/// Labels as `k=v` parameters.
pub fn labels<'a>(pairs: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, String>, Problem> {
    pairs
        .map(|pair| {
            pair.split_once('=')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .ok_or_else(|| Problem::bad_input("?label", format!("`{pair}` is not of the form name=value")))
        })
        .collect()
}
