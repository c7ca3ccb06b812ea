//! `POST /preview/impact`: what a run would touch. Asks the index alone and changes nothing.

use crate::body::{expect_json, parse, receive};
use crate::extract::Tenant;
use crate::keys;
use crate::problem::Problem;
use crate::schedules::check_selection;
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use scheduler_core::ports::RunFilter;
use scheduler_impact_index::{Query, QueryKey, Resolution, Want};
use scheduler_model::{RunState, Selection, TenantId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const SAMPLE_DEFAULT: usize = 20;
const SAMPLE_MAX: usize = 500;
const REPOSITORIES_MAX: usize = 100;

/// How long an index that lags behind is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many of the tenant's last runs tell what to expect.
const HISTORY_RUNS: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PreviewBody {
    keys: Option<Vec<String>>,
    vuln_ids: Option<Vec<String>>,
    selection: Selection,
    usage_only: Option<bool>,
    sample_size: Option<usize>,
}

/// `POST /preview/impact`
pub async fn impact(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
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
    let answer = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let keys: Option<Vec<QueryKey>> =
            keys.map(|keys| keys.into_iter().map(|key| QueryKey::new(key, None)).collect());
        let query = Query { tenant: &asker, selection: &selection, keys: keys.as_deref(), usage_only };
        let answer = index.resolve(&query, Want { sample, by_repository: REPOSITORIES_MAX, digests: false });
        metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
        (answer.candidates, show(&answer, keys.as_deref().unwrap_or_default()))
    })
    .await
    .map_err(|_| Problem::internal())?;
    let (candidates, mut document) = answer;
    let projected = projected(&app, &tenant, candidates).await?;
    document.insert("projected".into(), projected);
    document.insert("indexState".into(), json!(state.as_str()));
    document.insert("elapsedMs".into(), json!((began.elapsed().as_secs_f64() * 1e6).round() / 1e3));
    Ok(Json(Value::Object(document)))
}

fn show(answer: &Resolution, keys: &[QueryKey]) -> Map<String, Value> {
    let named = |positions: &[usize]| -> Vec<&str> {
        positions.iter().filter_map(|at| keys.get(*at)).map(|key| key.key.purl().as_str()).collect()
    };
    let sample: Vec<Value> = answer
        .sample
        .iter()
        .map(|one| {
            json!({
                "imageDigest": one.image.digest,
                "repository": one.image.repository,
                "tags": one.image.tags,
                "matchedKeys": named(&one.matched_keys),
            })
        })
        .collect();
    let repositories: Vec<Value> = answer
        .by_repository
        .iter()
        .map(|(repository, candidates)| json!({ "repository": repository, "candidates": candidates }))
        .collect();
    Map::from_iter([
        ("candidates".to_owned(), json!(answer.candidates)),
        ("total".to_owned(), json!(answer.total)),
        ("keysMatched".to_owned(), json!(answer.keys_matched)),
        ("keysUnknown".to_owned(), json!(answer.keys_unknown)),
        ("sample".to_owned(), json!(sample)),
        ("byRepository".to_owned(), json!(repositories)),
        ("asOfSequence".to_owned(), json!(answer.sequence)),
    ])
}

/// What the tenant's last runs let expect: the share of images that had news, over the candidates.
async fn projected(app: &App, tenant: &TenantId, candidates: u64) -> Result<Value, Problem> {
    let filter = RunFilter { state: Some(RunState::Completed), ..RunFilter::default() };
    let runs = app.store.runs(tenant, &filter, None, HISTORY_RUNS).await?.items;
    let sum = |of: fn(&scheduler_model::RunStats) -> u64| runs.iter().map(|run| of(&run.stats)).sum::<u64>();
    let completed = sum(|stats| stats.completed);
    if completed == 0 {
        return Ok(json!({ "deltas": 0, "kev": 0, "basis": "none" }));
    }
    let share = |part: u64| {
        let scaled = u128::from(candidates) * u128::from(part) / u128::from(completed);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    Ok(json!({
        "deltas": share(sum(|stats| stats.deltas)).min(candidates),
        "kev": share(sum(|stats| stats.kev_hits)),
        "basis": "history",
    }))
}
