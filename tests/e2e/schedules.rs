//! What is seen of a clock before and after it is saved, and what an event of policy does to schedules.

use crate::catalog::{digest, sidecar};
use crate::client::{Answer, Client, eventually};
use crate::scanner::Promises;
use crate::service::Service;
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// A refusal names the place in the input.
fn refused(answer: &Answer, pointer: &str) {
    assert_eq!((answer.status, answer.code()), (400, "bad-input"), "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.body["errors"][0]["pointer"], pointer, "{}", answer.text);
}

async fn preview(client: &Client, cron: &str, zone: &str, after: &str) -> Value {
    let body = json!({ "whenCron": cron, "timezone": zone, "after": after, "count": 3 });
    let answer = client.post("/schedules/preview", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

fn codes(answer: &Value) -> Vec<&str> {
    answer["warnings"].as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn cron_26_cron_27_a_clock_is_seen_before_it_is_saved_on_both_clocks_with_what_may_surprise() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let noon = preview(&client, "0 12 * * *", "Asia/Shanghai", "2026-01-01T00:00:00Z").await;
    assert_eq!(noon["items"], json!(["2026-01-01T04:00:00Z", "2026-01-02T04:00:00Z", "2026-01-03T04:00:00Z"]));
    assert_eq!(noon["instants"][0], json!({ "utc": "2026-01-01T04:00:00Z", "local": "2026-01-01T12:00:00+08:00" }));
    assert_eq!((noon["timezone"].as_str(), codes(&noon)), (Some("Asia/Shanghai"), vec![]));
    assert!(noon["reading"].as_str().unwrap().contains("12:00"), "{noon}");
    assert!(noon["timeZoneData"].as_str().unwrap() >= "2025b");
    let either = preview(&client, "0 0 1-29 10 1-5", "UTC", "2025-10-01T00:00:00Z").await;
    assert_eq!(codes(&either), ["either-day"]);
    let changes = preview(&client, "30 3 * * *", "Europe/Sofia", "2026-01-01T00:00:00Z").await;
    assert_eq!(codes(&changes), ["moved", "first-pass-only"]);
    let wildcard = preview(&client, "*/20 3 * * *", "Europe/Sofia", "2026-01-01T00:00:00Z").await;
    assert_eq!(codes(&wildcard), ["skipped", "doubled"]);
    let over = preview(&client, "0 0 12 1 1 ? 2026", "UTC", "2026-06-01T00:00:00Z").await;
    assert_eq!((over["items"].clone(), codes(&over)), (json!([]), vec!["never"]));
    assert_eq!(client.all("/schedules").await, Vec::<Value>::new(), "nothing was saved");

    // What is saved says the same, then and whenever it is read.
    let body = json!({ "name": "s", "whenCron": "0 0 1-29 10 1-5" });
    let saved = client.post("/schedules", &body).await;
    assert_eq!((saved.status, codes(&saved.body)), (201, vec!["either-day"]), "{}", saved.text);
    let path = format!("/schedules/{}", saved.body["id"].as_str().unwrap());
    assert_eq!(codes(&client.get(&path).await.body), ["either-day"]);
    let patch = client.request(Method::PATCH, &path).header("content-type", "application/merge-patch+json");
    let patched = client.send(patch.body(json!({ "whenCron": "0 2 * * *" }).to_string())).await;
    assert_eq!((patched.status, codes(&patched.body)), (200, vec![]));
}

#[tokio::test]
async fn cron_23_cron_24_a_clock_that_means_nothing_is_refused_at_its_place_wherever_it_is_given() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let saved = client.post("/schedules", &json!({ "name": "s", "whenCron": "0 2 * * *" })).await;
    let path = format!("/schedules/{}", saved.body["id"].as_str().unwrap());
    let clock = |cron: &str, zone: &str| json!({ "whenCron": cron, "timezone": zone });
    for (wrong, pointer, says) in [
        (clock("61 * * * *", "UTC"), "/whenCron", "minute field"),
        (clock("0 0 30 2 *", "UTC"), "/whenCron", "day-of-month field"),
        (clock("TZ=UTC 0 2 * * *", "UTC"), "/whenCron", "zone"),
        (clock("CRON_TZ=UTC", "UTC"), "/whenCron", ""),
        (clock("TZ=", "UTC"), "/whenCron", ""),
        (clock("0 2 * * *", "TZ=Europe/Sofia"), "/timezone", ""),
        (clock("0 2 * * *", "europe/sofia"), "/timezone", ""),
        (clock("0 2 * * *", "PST"), "/timezone", ""),
        (clock("0 2 * * *", ""), "/timezone", ""),
    ] {
        let mut named = wrong.clone();
        named["name"] = "other".into();
        let patch = client.request(Method::PATCH, &path).header("content-type", "application/merge-patch+json");
        let answers = [
            client.post("/schedules/preview", &wrong).await,
            client.post("/schedules", &named).await,
            client.send(patch.body(wrong.to_string())).await,
        ];
        for answer in answers {
            refused(&answer, pointer);
            assert!(answer.text.contains(says), "{}", answer.text);
        }
    }
    assert_eq!(client.get(&path).await.body["version"], 1, "nothing was changed");
}

#[tokio::test]
async fn a_preview_takes_what_it_knows_and_no_more() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let ask = async |body: Value| client.post("/schedules/preview", &body).await;
    let daily = |member: &str, value: Value| {
        let mut body = json!({ "whenCron": "@daily" });
        body[member] = value;
        body
    };
    for count in [1, 500] {
        let answer = ask(daily("count", count.into())).await;
        assert_eq!(answer.body["items"].as_array().unwrap().len(), count, "{}", answer.text);
    }
    assert_eq!(ask(json!({ "whenCron": "@daily" })).await.body["items"].as_array().unwrap().len(), 10);
    for count in [0, 501] {
        refused(&ask(daily("count", count.into())).await, "/count");
    }
    refused(&ask(daily("after", "yesterday".into())).await, "/after");
    refused(&ask(daily("zone", "UTC".into())).await, "/zone");
    assert_eq!(ask(json!({})).await.status, 400);
    assert_eq!(ask(json!([])).await.status, 400);
    let request = client.request(Method::POST, "/schedules/preview");
    let broken = client.send(request.header("content-type", "application/json").body("{")).await;
    assert_eq!(broken.status, 400, "{}", broken.text);
    let request = client.request(Method::POST, "/schedules/preview");
    let text = client.send(request.header("content-type", "text/plain").body("@daily")).await;
    assert_eq!(text.status, 415, "{}", text.text);
    let request = client.request(Method::POST, "/schedules/preview").header("X-Tenant-Id", "no tenant");
    assert_eq!(client.send(request.json(&json!({ "whenCron": "@daily" }))).await.status, 400);
}

#[tokio::test]
async fn p02_the_instants_ahead_of_a_schedule_are_its_tenants() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let body = json!({ "name": "s", "whenCron": "30 3 * * *", "timezone": "Europe/Sofia" });
    let saved = client.post("/schedules", &body).await;
    let path = format!("/schedules/{}/next", saved.body["id"].as_str().unwrap());
    let next = client.get(&format!("{path}?count=2&after=2026-03-28T12:00:00Z")).await;
    assert_eq!(next.body["items"], json!(["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]), "{}", next.text);
    assert_eq!(next.body["instants"][0]["local"], "2026-03-29T04:00:00+03:00", "03:30 does not exist");
    assert_eq!(codes(&next.body), ["moved", "first-pass-only", "moved"], "of the year to come");
    assert_eq!(client.get(&path).await.body["items"].as_array().unwrap().len(), 10);
    for (count, status) in [("1", 200), ("500", 200), ("0", 400), ("501", 400), ("-1", 400), ("ten", 400), ("", 400)] {
        let answer = client.get(&format!("{path}?count={count}")).await;
        assert_eq!(answer.status, status, "{count}: {}", answer.text);
        if status == 400 {
            refused(&answer, "?count");
        }
    }
    refused(&client.get(&format!("{path}?after=tomorrow")).await, "?after");
    let others = client.of("other").get(&path).await;
    assert_eq!((others.status, others.code()), (404, "not-found"));
    assert_eq!(client.get("/schedules/no-such/next").await.status, 404);
    // A schedule without a clock has no instants, and one that is deleted is not there.
    let by_hand = client.post("/schedules", &json!({ "name": "by-hand" })).await;
    let next = client.get(&format!("/schedules/{}/next", by_hand.body["id"].as_str().unwrap())).await;
    assert_eq!((next.body["items"].clone(), next.body["reading"].clone()), (json!([]), Value::Null));
    let gone = client.send(client.request(Method::DELETE, path.trim_end_matches("/next"))).await;
    assert_eq!((gone.status, client.get(&path).await.status), (204, 404));
}

/// A schedule under a policy revision; gives its id.
async fn under(client: &Client, name: &str, revision: Option<&str>, enabled: bool) -> String {
    let only_if = revision.map_or(json!({}), |revision| json!({ "policyRevision": revision }));
    let body = json!({ "name": name, "enabled": enabled, "onlyIf": only_if });
    let answer = client.post("/schedules", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].as_str().unwrap().to_owned()
}

async fn revision_of(client: &Client, id: &str) -> Value {
    client.get(&format!("/schedules/{id}")).await.body["onlyIf"]["policyRevision"].clone()
}

#[tokio::test]
async fn p02_a_policy_revision_makes_the_schedules_of_its_tenant_due_that_are_under_another_one() {
    let scanner = Promises::start(Duration::ZERO);
    let service = Service::start(json!({ "integrates": { "scannerUrl": scanner.server.url() } })).await;
    let (client, other) = (service.client("default"), service.client("other"));
    for client in [&client, &other] {
        let put = client.put(&format!("/images/{}/bom-index", digest(1)), &sidecar(1)).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
    let old = under(&client, "old", Some("rev-1"), true).await;
    let paused = under(&client, "paused", Some("rev-1"), false).await;
    let older = under(&client, "older", Some("rev-0"), true).await;
    let indifferent = under(&client, "indifferent", None, true).await;
    let of_other = under(&other, "old", Some("rev-1"), true).await;
    let tell = async |body: Value| client.post("/events/policy-revision", &body).await;
    let told = tell(json!({ "policyRevision": "rev-2", "previous": "rev-1" })).await;
    assert_eq!((told.status, told.body["moved"].clone()), (202, json!(2)), "{}", told.text);
    let begun: Vec<_> = told.body["runs"].as_array().unwrap().iter().map(|run| run["scheduleId"].clone()).collect();
    assert_eq!(begun, [json!(old)], "the one that is enabled");
    let run = client.ended(told.body["runs"][0]["runId"].as_str().unwrap()).await;
    assert_eq!((run["trigger"].as_str(), run["stats"]["completed"].clone()), (Some("policy"), json!(1)));
    let asked: Vec<_> = scanner.server.calls().iter().map(|call| call.text("policyRevision").to_owned()).collect();
    assert_eq!(asked, ["rev-2"], "under the new one");
    let revisions = [&old, &paused, &older, &indifferent];
    let mut found = Vec::new();
    for id in revisions {
        found.push(revision_of(&client, id).await);
    }
    assert_eq!(found, [json!("rev-2"), json!("rev-2"), json!("rev-0"), Value::Null]);
    assert_eq!(revision_of(&other, &of_other).await, "rev-1");
    assert_eq!(other.all("/runs").await, Vec::<Value>::new());
    // Said again, nobody is under another one; and without `previous` the older one is concerned too.
    let again = tell(json!({ "policyRevision": "rev-2", "previous": "rev-1" })).await;
    assert_eq!((again.body["moved"].clone(), again.body["runs"].clone()), (json!(0), json!([])));
    let rest = tell(json!({ "policyRevision": "rev-2" })).await;
    assert_eq!(rest.body["moved"], 1, "{}", rest.text);
    // The image has a report under that one, so there is nothing to ask.
    let run = client.ended(rest.body["runs"][0]["runId"].as_str().unwrap()).await;
    assert_eq!((run["stats"]["candidates"].clone(), run["stats"]["queued"].clone()), (json!(1), json!(0)), "{run}");
}

#[tokio::test]
async fn a_policy_revision_that_cannot_be_one_is_refused_and_one_beyond_the_limit_is_told_how_far_it_got() {
    let scanner = Promises::start(Duration::from_millis(300));
    let settings = json!({
        "integrates": { "scannerUrl": scanner.server.url() },
        "limits": { "maxActiveRunsPerTenant": 1 },
    });
    let service = Service::start(settings).await;
    let client = service.client("default");
    let tell = async |body: Value| client.post("/events/policy-revision", &body).await;
    for (length, status) in [(1, 202), (256, 202), (257, 400), (0, 400)] {
        let answer = tell(json!({ "policyRevision": "r".repeat(length) })).await;
        assert_eq!(answer.status, status, "{length}: {}", answer.text);
        if status == 400 {
            refused(&answer, "/policyRevision");
        }
    }
    refused(&tell(json!({ "policyRevision": "a\u{7}" })).await, "/policyRevision");
    refused(&tell(json!({ "policyRevision": "a", "previous": "" })).await, "/previous");
    refused(&tell(json!({ "policyRevision": "a", "since": "b" })).await, "/since");
    assert_eq!(tell(json!({})).await.status, 400);
    assert_eq!(tell(json!({ "policyRevision": 7 })).await.status, 400);
    let request = client.request(Method::POST, "/events/policy-revision").header("content-type", "text/plain");
    assert_eq!(client.send(request.body("rev-2")).await.status, 415);

    client.put(&format!("/images/{}/bom-index", digest(1)), &sidecar(1)).await;
    for name in ["a", "b"] {
        under(&client, name, Some("rev-1"), true).await;
    }
    let full = tell(json!({ "policyRevision": "rev-2" })).await;
    assert_eq!((full.status, full.code()), (429, "limit-reached"), "{}", full.text);
    assert!(full.retry_after().is_some() && full.text.contains("1 schedules"), "{}", full.text);
    let rest = eventually("the rest is moved", async || {
        let answer = tell(json!({ "policyRevision": "rev-2" })).await;
        (answer.status == 202).then_some(answer)
    })
    .await;
    assert_eq!(rest.body["moved"], 1);
    let runs = client.all("/runs?trigger=policy").await;
    assert_eq!(runs.len(), 2, "one of each, however often it was said");
    // The same limits hold where a schedule names it.
    for (revision, status) in
        [("r".repeat(256), 201), ("r".repeat(257), 400), (String::new(), 400), ("a\r\nb".to_owned(), 400)]
    {
        let body = json!({ "name": status.to_string(), "enabled": false, "onlyIf": { "policyRevision": revision } });
        let answer = client.post("/schedules", &body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        if status == 400 {
            refused(&answer, "/onlyIf/policyRevision");
        }
    }
}

/// An export of a time.
async fn export_of(client: &Client, name: &str, keys: &[&str], window: (&str, &str)) -> Answer {
    let window = json!({ "from": window.0, "to": window.1 });
    let body = json!({ "exportId": name, "changedProductKeys": keys, "window": window });
    client.post_event("feedser", &body).await
}

async fn cursor(client: &Client) -> Option<Value> {
    let answer = client.get("/cursors").await;
    assert_eq!((answer.status, answer.body["nextCursor"].clone()), (200, Value::Null), "{}", answer.text);
    answer.body["items"].as_array().unwrap().first().cloned()
}

/// Waits until the cursor stands at an export.
async fn cursor_at(client: &Client, export: &str) -> Value {
    let what = format!("the cursor stands at {export}");
    eventually(&what, async || cursor(client).await.filter(|cursor| cursor["exportId"] == export)).await
}

#[tokio::test]
async fn note_18_a_hole_between_windows_is_shown_counted_and_logged_until_a_late_window_fills_it() {
    let scanner = Promises::start(Duration::ZERO);
    let settings = json!({
        "integrates": { "scannerUrl": scanner.server.url() }, "events": { "debounceSeconds": 0 },
    });
    let service = Service::start(settings).await;
    let client = service.client("default");
    assert_eq!(cursor(&client).await, None);
    let holes = async || {
        let text = client.get("/metrics").await.text;
        let line = text.lines().find(|line| line.starts_with("scheduler_window_holes_total{source=\"feedser\"}"));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    eventually("the count is there before there is a hole", async || holes().await.filter(|count| count == "0")).await;
    client.subscribe("s").await;
    let hour = |hour: u32| format!("2026-11-29T{hour:02}:00:00Z");
    let export = async |name: &str, from: u32, to: u32| {
        let answer = export_of(&client, name, &["pkg:npm/a"], (&hour(from), &hour(to))).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        cursor_at(&client, name).await
    };
    let first = export("e-1", 1, 2).await;
    assert_eq!((first["windowEnd"].as_str(), first["holes"].clone()), (Some("2026-11-29T02:00:00.000Z"), json!([])));
    let torn = export("e-2", 5, 6).await;
    let hole = json!({ "from": "2026-11-29T02:00:00.000Z", "to": "2026-11-29T05:00:00.000Z" });
    let found = torn["holes"][0].clone();
    assert_eq!((&found["from"], &found["to"]), (&hole["from"], &hole["to"]), "{torn}");
    let run = client.get(&format!("/runs/{}", found["foundBy"].as_str().unwrap())).await;
    assert_eq!(run.body["reason"]["feedserExportId"], "e-2");
    eventually("it is counted", async || holes().await.filter(|count| count == "1")).await;
    eventually("it is logged", async || service.log().contains("no export covers this time").then_some(())).await;
    // An export without a readable key is refused, and moves nothing.
    let empty = export_of(&client, "e-empty", &[], (&hour(6), &hour(7))).await;
    assert_eq!(empty.status, 400, "{}", empty.text);
    assert_eq!(cursor(&client).await, Some(torn));
    let mended = export("e-3", 2, 5).await;
    assert_eq!((mended["holes"].clone(), mended["holesFound"].clone()), (json!([]), json!(1)));
    assert_eq!(mended["windowEnd"], "2026-11-29T06:00:00.000Z", "it does not go back");
    // Another tenant has no schedule that hears it, and so no cursor; nor has the other source.
    assert_eq!(cursor(&client.of("other")).await, None);
    assert_eq!(client.get("/cursors").await.body["items"].as_array().unwrap().len(), 1);
    // A window that means nothing is no reason to refuse changed packages, and moves nothing.
    let ignored = export_of(&client, "e-4", &["pkg:npm/a"], (&hour(9), &hour(8))).await;
    assert_eq!(ignored.body["windowIgnored"], "it ends before it begins", "{}", ignored.text);
    let future = export_of(&client, "e-5", &["pkg:npm/a"], (&hour(9), "2190-01-01T00:00:00Z")).await;
    assert!(future.body["windowIgnored"].as_str().unwrap().contains("clocks is wrong"), "{}", future.text);
    let same = cursor_at(&client, "e-5").await;
    assert_eq!((same["windowEnd"].clone(), same["holes"].clone()), (mended["windowEnd"].clone(), json!([])));
    assert_eq!(service.log().matches("the window of an export is ignored").count(), 2);
}

#[tokio::test]
async fn cursors_come_in_pages_like_every_list() {
    let scanner = Promises::start(Duration::ZERO);
    let service = Service::start(json!({ "integrates": { "scannerUrl": scanner.server.url() } })).await;
    let client = service.client("default");
    client.post("/schedules", &json!({ "name": "both", "onEvents": ["feedser", "vexer"] })).await;
    client.post_event("feedser", &json!({ "exportId": "f", "changedProductKeys": ["pkg:npm/a"] })).await;
    let claims = json!([{ "productKey": "pkg:npm/a", "vulnId": "CVE-2026-1", "status": "affected→fixed" }]);
    client.post_event("vexer", &json!({ "exportId": "v", "changedClaims": claims })).await;
    eventually("both are planned", async || (client.all("/cursors").await.len() == 2).then_some(())).await;
    let mut sources = Vec::new();
    let mut path = "/cursors?limit=1".to_owned();
    loop {
        let page = client.get(&path).await;
        sources.extend(page.body["items"].as_array().unwrap().iter().map(|item| item["source"].clone()));
        let Some(next) = page.body["nextCursor"].as_str() else { break };
        path = format!("/cursors?limit=1&cursor={next}");
    }
    assert_eq!(sources, [json!("feedser"), json!("vexer")]);
    for wrong in ["limit=0", "limit=501", "limit=x", "cursor=zz"] {
        assert_eq!(client.get(&format!("/cursors?{wrong}")).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn note_18_a_backfill_makes_up_for_what_no_export_told_of() {
    let scanner = Promises::start(Duration::ZERO);
    let service = Service::start(json!({ "integrates": { "scannerUrl": scanner.server.url() } })).await;
    let client = service.client("default");
    for number in 0..3 {
        client.put(&format!("/images/{}/bom-index", digest(number)), &sidecar(number)).await;
    }
    let schedule = client.subscribe("s").await;
    let started = client.start_run(&json!({ "scheduleId": schedule, "backfill": true, "reason": "a hole" })).await;
    let run = client.ended(&started).await;
    assert_eq!((run["trigger"].as_str(), run["stats"]["completed"].clone()), (Some("backfill"), json!(3)), "{run}");
    assert_eq!(client.all("/runs?trigger=backfill").await.len(), 1);
    refused(&client.post("/run", &json!({ "backfill": true })).await, "/backfill");
    let of_other = client.of("other").post("/run", &json!({ "scheduleId": schedule, "backfill": true })).await;
    assert_eq!(of_other.status, 404, "{}", of_other.text);
}

#[tokio::test]
async fn note_18_a_cursor_moves_with_the_run_that_takes_the_export_and_not_before() {
    let scanner = Promises::start(Duration::ZERO);
    let settings = json!({
        "integrates": { "scannerUrl": scanner.server.url() }, "events": { "debounceSeconds": 3600 },
    });
    let mut service = Service::start(settings).await;
    let client = service.client("default");
    client.subscribe("s").await;
    let window = ("2026-11-29T01:00:00Z", "2026-11-29T02:00:00Z");
    assert_eq!(export_of(&client, "first", &["pkg:npm/a"], window).await.status, 202);
    cursor_at(&client, "first").await;
    // Accepted, durable, and not planned: the window is open for an hour.
    assert_eq!(export_of(&client, "waits", &["pkg:npm/b"], window).await.status, 202);
    service.kill();
    service.spawn().await;
    // A process that begins anew has no window open, and plans what waits.
    let client = service.client("default");
    cursor_at(&client, "waits").await;
    let runs = client.all("/runs").await;
    let mut exports: Vec<_> = runs.iter().map(|run| run["reason"]["exportIds"].clone()).collect();
    exports.sort_by_key(Value::to_string);
    assert_eq!(exports, [json!(["first"]), json!(["waits"])]);
}

#[test]
fn the_command_line_shows_a_clock_on_both_clocks_with_what_may_surprise() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_stella-scheduler")).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let next =
        ["schedule", "next", "30 3 * * *", "--tz", "Europe/Sofia", "--count", "2", "--after", "2026-03-28T12:00:00Z"];
    let (code, stdout, stderr) = run(&next);
    assert_eq!(code, Some(0), "{stderr}");
    let lines = [
        "2026-03-29T01:00:00Z  Sun 2026-03-29 04:00:00 +03:00",
        "2026-03-30T00:30:00Z  Mon 2026-03-30 03:30:00 +03:00",
    ];
    assert_eq!(stdout.lines().collect::<Vec<_>>(), lines);
    assert!(
        stderr.contains("(Europe/Sofia)") && stderr.contains("warning: 2026-03-29 03:30:00 does not exist"),
        "{stderr}"
    );
    let (_, either, remarks) = run(&["schedule", "next", "0 0 13 * 5", "--count", "1"]);
    assert!(remarks.contains("warning: ") && either.lines().count() == 1, "{remarks}");
    let (code, json, _) = run(&[&["--json"], next.as_slice()].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["items"][0].as_str(), codes(&json)[0]), (Some(0), Some("2026-03-29T01:00:00Z"), "moved"));
    for (expression, zone, says) in [("61 * * * *", "UTC", "minute field"), ("0 2 * * *", "Sofia", "Sofia")] {
        let (code, stdout, stderr) = run(&["schedule", "next", expression, "--tz", zone]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
}
