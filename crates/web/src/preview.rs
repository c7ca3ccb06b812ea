//! `POST /preview/impact`: what a run would touch. Asks the index alone and changes nothing.

use crate::body::{expect_json, parse, receive};
use crate::extract::Tenant;
use crate::keys::{self, Sent};
use crate::openapi::params::TenantHeader;
use crate::openapi::params::texts::ProductKeyText;
use crate::openapi::problems::OfPreview;
use crate::preview_answer::{Basis, Found, PreviewAnswer, Projection};
use crate::problem::{FieldError, Problem};
use crate::schedule_body::check_selection;
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use scheduler_core::ports::RunFilter;
use scheduler_impact_index::{Query, QueryKey, Want};
use scheduler_model::purl::ProductKey;
use scheduler_model::{ChangedKey, Priority, RunState, Selection, TenantId};
use scheduler_worker::Mentions;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;

const SHOWN_DEFAULT: usize = 20;
const SHOWN_MAX: usize = 500;
const REPOSITORIES_MAX: usize = 100;

/// How long an index that lags behind is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many of the tenant's last runs tell what to expect.
const HISTORY_RUNS: usize = 50;

/// What might change.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = Preview, example = json!({ "keys": ["pkg:deb/debian/openssl"], "sampleSize": 5 }))]
pub struct PreviewBody {
    /// Changed product keys; with `vulnIds` a union. Without both: every image of the selection.
    #[schema(value_type = Option<Vec<ProductKeyText>>)]
    keys: Option<Vec<String>>,
    /// Vulnerabilities that exports have told of.
    vuln_ids: Option<Vec<String>>,
    selection: Selection,
    /// Whether only packages that the entrypoint uses count; default: as configured.
    usage_only: Option<bool>,
    /// Changed product keys with what an export says of versions; with `keys` and `vulnIds` a union.
    changes: Option<Vec<PreviewChange>>,
    /// Whether images are left out whose versions are surely outside of the `affected` ranges of `changes`; default: as
    /// configured.
    narrow_by_range: Option<bool>,
    /// The most images that are shown.
    #[schema(maximum = 500, default = 20)]
    sample_size: Option<usize>,
    /// The most keys that are explained.
    #[schema(maximum = 500, default = 20)]
    explain_size: Option<usize>,
}

/// A changed product key, as a change of an export has it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PreviewChange {
    #[schema(value_type = ProductKeyText)]
    product_key: String,
    /// The affected versions as a `vers` range; without it, or when it is not understood, any version.
    #[schema(example = "vers:deb/<3.0.13-1~deb12u1")]
    affected: Option<String>,
}

/// What would a change touch?
///
/// Asks the index alone, never the scanner, and changes nothing. The answer is as of the last acknowledged catalog change; a lagging
/// index is waited for up to a second, beyond that `indexState` and `asOfSequence` say so.
#[utoipa::path(
    post, path = "/preview/impact", tag = "previews", operation_id = "previewImpact",
    params(TenantHeader), request_body = PreviewBody,
    responses((status = 200, description = "What it would touch", body = PreviewAnswer), OfPreview)
)]
pub async fn impact(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PreviewAnswer>, Problem> {
    expect_json(&headers)?;
    let content = receive(&app, &tenant, &headers, body).await?;
    let began = Instant::now();
    let asked: PreviewBody = parse(&content)?;
    check_selection(&asked.selection, "/selection")?;
    let sample = shown("/sampleSize", asked.sample_size)?;
    let explain = shown("/explainSize", asked.explain_size)?;
    let narrow = asked.narrow_by_range.unwrap_or(app.narrow_by_range);
    let of_changes =
        asked.changes.map(|changes| changed_keys(changes, narrow, app.limits.keys_per_event)).transpose()?;
    let given = keys::resolve(&app, &tenant, asked.keys, asked.vuln_ids).await?;
    let sent = match (given, of_changes) {
        (Some(given), Some(changes)) => Some(given.and(changes)),
        (given, changes) => given.or(changes),
    };
    let state = app.index.caught_up(PATIENCE).await?;
    let index = app.index.index();
    let usage_only = asked.usage_only.unwrap_or(app.run_defaults.usage_only);
    let (asker, selection) = (tenant.clone(), asked.selection);
    let resolved = tokio::task::spawn_blocking(move || {
        let sent = sent.map(Sent::distinct);
        let began = Instant::now();
        let keys = sent.as_ref().map(|sent| sent.keys.as_slice());
        let query = Query { tenant: &asker, selection: &selection, keys, usage_only };
        let answer = index.resolve(&query, Want { sample, explain, by_repository: REPOSITORIES_MAX, digests: false });
        metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
        Found::of(answer, &sent.unwrap_or_default().texts)
    })
    .await
    .map_err(|_| Problem::internal())?;
    let projected = projected(&app, &tenant, resolved.candidates()).await?;
    let elapsed_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    Ok(Json(resolved.answer(projected, state.into(), elapsed_ms)))
}

/// How many of something are shown.
fn shown(pointer: &str, asked: Option<usize>) -> Result<usize, Problem> {
    let size = asked.unwrap_or(SHOWN_DEFAULT);
    if size > SHOWN_MAX {
        return Err(Problem::bad_input(pointer, format!("{size} is over {SHOWN_MAX}")));
    }
    Ok(size)
}

/// The keys of changes, as the planner has them.
fn changed_keys(changes: Vec<PreviewChange>, narrow: bool, most: usize) -> Result<Sent, Problem> {
    keys::count_within("changes", changes.len(), most)?;
    let (mut mentions, mut texts, mut errors) = (Mentions::default(), HashMap::new(), Vec::new());
    for (number, PreviewChange { product_key, affected }) in changes.into_iter().enumerate() {
        match ProductKey::parse(&product_key) {
            Ok((key, _)) => {
                let purl = key.purl().as_str().to_owned();
                texts.entry(purl.clone()).or_insert(product_key);
                mentions.add(ChangedKey {
                    key: purl,
                    priority: Priority::Normal,
                    subcomponent: None,
                    affected: affected.into_iter().collect(),
                });
            }
            Err(error) => {
                errors.push(FieldError { pointer: format!("/changes/{number}/productKey"), detail: error.to_string() });
            }
        }
    }
    if !errors.is_empty() {
        return Err(Problem::bad_places(keys::not_purls(errors.len()), errors));
    }
    let keys = mentions.keys(narrow).map_err(|_| Problem::internal())?;
    let keys: Vec<QueryKey> = keys.into_iter().map(|(key, _)| key).collect();
    let texts = keys.iter().map(|key| texts.remove(key.key.purl().as_str()).unwrap_or_default()).collect();
    Ok(Sent { keys, texts })
}

/// What the tenant's last runs let expect: the share of images that had news, over the candidates.
async fn projected(app: &App, tenant: &TenantId, candidates: u64) -> Result<Projection, Problem> {
    let filter = RunFilter { state: Some(RunState::Completed), ..RunFilter::default() };
    let runs = app.store.runs(tenant, &filter, None, HISTORY_RUNS).await?.items;
    let sum = |of: fn(&scheduler_model::RunStats) -> u64| runs.iter().map(|run| of(&run.stats)).sum::<u64>();
    let completed = sum(|stats| stats.completed);
    if completed == 0 {
        return Ok(Projection::default());
    }
    let share = |part: u64| {
        let scaled = u128::from(candidates) * u128::from(part) / u128::from(completed);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    Ok(Projection {
        deltas: share(sum(|stats| stats.deltas)).min(candidates),
        kev: share(sum(|stats| stats.kev_hits)),
        basis: Basis::History,
    })
}
