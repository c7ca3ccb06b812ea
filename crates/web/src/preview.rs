//! `POST /preview/impact`: what a run would touch. Asks the index alone and changes nothing.

use crate::body::{expect_json, parse, receive};
use crate::extract::Tenant;
use crate::keys;
use crate::openapi::params::TenantHeader;
use crate::openapi::params::texts::ProductKeyText;
use crate::openapi::problems::OfPreview;
use crate::problem::Problem;
use crate::schedule_body::check_selection;
use crate::state::App;
use crate::view::IndexStateView;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use scheduler_core::ports::RunFilter;
use scheduler_impact_index::{Query, QueryKey, Resolution, Want};
use scheduler_model::{ImageDigest, RunState, Selection, TenantId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;

const SAMPLE_DEFAULT: usize = 20;
const SAMPLE_MAX: usize = 500;
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
    /// The most images that are shown.
    #[schema(maximum = 500, default = 20)]
    sample_size: Option<usize>,
}

/// What a run would touch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewAnswer {
    /// Images that the keys touch under the selection.
    candidates: u64,
    /// Images under the selection.
    total: u64,
    /// Keys that some component of the tenant's catalog has.
    keys_matched: u64,
    keys_unknown: u64,
    sample: Vec<SampleImage>,
    /// The largest, at most 100.
    by_repository: Vec<RepositoryCount>,
    projected: Projection,
    index_state: IndexStateView,
    /// The last catalog change that the answer knows.
    as_of_sequence: u64,
    elapsed_ms: f64,
}

/// One of the images.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SampleImage {
    image_digest: ImageDigest,
    repository: String,
    tags: Vec<String>,
    /// Keys that it was found by.
    matched_keys: Vec<String>,
}

/// How many of a repository's images.
#[derive(Debug, Serialize, ToSchema)]
struct RepositoryCount {
    repository: String,
    candidates: u64,
}

/// What the tenant's last runs let expect.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Projection {
    /// Images with news.
    deltas: u64,
    /// KEV hits.
    kev: u64,
    basis: Basis,
}

/// What a projection is made of.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Basis {
    /// The tenant's last runs.
    History,
    /// Nothing: there are none.
    #[default]
    None,
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
    let content = receive(&headers, body, app.limits.body_bytes).await?;
    let began = Instant::now();
    let asked: PreviewBody = parse(&content)?;
    check_selection(&asked.selection, "/selection")?;
    let sample = asked.sample_size.unwrap_or(SAMPLE_DEFAULT);
    if sample > SAMPLE_MAX {
        return Err(Problem::bad_input("/sampleSize", format!("{sample} is over {SAMPLE_MAX}")));
    }
    let keys = keys::resolve(&app, &tenant, asked.keys, asked.vuln_ids).await?;
    let state = app.index.caught_up(PATIENCE).await?;
    let index = app.index.index();
    let usage_only = asked.usage_only.unwrap_or(app.run_defaults.usage_only);
    let (asker, selection) = (tenant.clone(), asked.selection);
    let resolved = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let keys: Option<Vec<QueryKey>> =
            keys.map(|keys| keys.into_iter().map(|key| QueryKey::new(key, None)).collect());
        let query = Query { tenant: &asker, selection: &selection, keys: keys.as_deref(), usage_only };
        let answer = index.resolve(&query, Want { sample, by_repository: REPOSITORIES_MAX, digests: false });
        metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
        let sample = show_sample(&answer, keys.as_deref().unwrap_or_default());
        (answer, sample)
    })
    .await
    .map_err(|_| Problem::internal())?;
    let (answer, sample) = resolved;
    let projected = projected(&app, &tenant, answer.candidates).await?;
    let count = |(repository, candidates)| RepositoryCount { repository, candidates };
    Ok(Json(PreviewAnswer {
        candidates: answer.candidates,
        total: answer.total,
        keys_matched: answer.keys_matched,
        keys_unknown: answer.keys_unknown,
        sample,
        by_repository: answer.by_repository.into_iter().map(count).collect(),
        projected,
        index_state: state.into(),
        as_of_sequence: answer.sequence,
        elapsed_ms: (began.elapsed().as_secs_f64() * 1e6).round() / 1e3,
    }))
}

fn show_sample(answer: &Resolution, keys: &[QueryKey]) -> Vec<SampleImage> {
    let named = |positions: &[usize]| -> Vec<String> {
        positions.iter().filter_map(|at| keys.get(*at)).map(|key| key.key.purl().as_str().to_owned()).collect()
    };
    answer
        .sample
        .iter()
        .map(|one| SampleImage {
            image_digest: one.image.digest.clone(),
            repository: one.image.repository.clone(),
            tags: one.image.tags.clone(),
            matched_keys: named(&one.matched_keys),
        })
        .collect()
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
