use super::*;
use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

/// A screen whose text can be read afterwards.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn played(scenario: &Scenario) -> (anyhow::Result<Summary>, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::default();
    let mut screen = Screen::new(Box::new(kept.clone()));
    let summary = play(scenario, folder.path(), &mut screen, false, CancellationToken::new()).await;
    let text = String::from_utf8(kept.0.lock().clone()).unwrap();
    (summary, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn p01_the_sample_runs_to_its_end_and_agrees_with_brute_force() {
    let scenario = scenario::sample(60, 1).unwrap();
    let (summary, text) = played(&scenario).await;
    let summary = summary.unwrap();
    assert_eq!(summary.images, 60);
    assert!(summary.impacted > 0 && summary.impacted < 60, "{summary}");
    assert!(summary.deltas > 0 && summary.deltas < summary.impacted, "{summary}");
    assert_eq!(summary.calls, summary.impacted as u64);
    for step in 1..=6 {
        assert!(text.contains(&format!("[{step}/6]")), "step {step} is told:\n{text}");
    }
    let document = summary.document();
    assert_eq!((&document["images"], &document["impacted"]), (&60.into(), &summary.impacted.into()));
    assert!(!text.contains("whsec_") && !text.contains("sig="), "no secret is shown:\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_differs_from_brute_force_fails_the_demo_in_a_sentence() {
    let mut scenario = scenario::sample(24, 1).unwrap();
    // The catalog gets what the demo does not know of: one image less to expect than the service will name.
    let keys = scenario.keys.clone();
    let hidden = scenario.images.iter_mut().find(|image| image.is_selected(&keys, true)).unwrap();
    hidden.packages.clear();
    let (summary, _) = played(&scenario).await;
    let said = summary.unwrap_err().to_string();
    assert!(said.starts_with("the preview names"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_files_are_judged_by_the_exports_keys_and_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let sbom = |version: &str| {
        format!(
            r#"{{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [
                {{"type": "library", "name": "next", "purl": "pkg:npm/next@{version}"}}]}}"#
        )
    };
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    std::fs::write(folder.path().join("old.cdx.json"), sbom("14.0.0")).unwrap();
    let packed = zstd::encode_all(sbom("14.2.25").as_bytes(), 1).unwrap();
    std::fs::write(folder.path().join("deep/new.cdx.json.zst"), packed).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(sbom("13.0.0").replace("npm/next", "npm/nest").as_bytes()).unwrap();
    std::fs::write(folder.path().join("other.json.gz"), packed.finish().unwrap()).unwrap();
    std::fs::write(folder.path().join("package.json"), r#"{"name": "no sbom"}"#).unwrap();
    let export = folder.path().join("export.txt");
    let body = r#"{"exportId": "mine", "changedProductKeys": [], "kev": ["CVE-1"], "changes": [{"productKey": "pkg:npm/next",
        "vulnId": "CVE-1", "severity": "critical", "affected": "vers:npm/<14.2.25"}]}"#;
    std::fs::write(&export, body).unwrap();
    let scenario = own::scenario(folder.path(), &export).unwrap();
    let (summary, text) = played(&scenario).await;
    let summary = summary.unwrap();
    assert_eq!((summary.images, summary.impacted, summary.deltas), (3, 2, 1), "{text}");
    assert_eq!((summary.findings, summary.kev_hits), ([1, 0, 0], 1));
    assert!(text.contains("left out: package.json"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_touches_nothing_ends_with_no_delta() {
    let mut scenario = scenario::sample(12, 1).unwrap();
    let key = "pkg:npm/nobody-has-this";
    scenario.export = format!(r#"{{"exportId": "none", "changedProductKeys": ["{key}"]}}"#).into_bytes();
    scenario.export_id = "none".to_owned();
    scenario.keys = vec![scheduler_model::purl::ProductKey::parse(key).unwrap().0];
    scenario.after.clone_from(&scenario.before);
    let (summary, text) = played(&scenario).await;
    assert_eq!(summary.unwrap().calls, 0, "{text}");
}

#[test]
fn a_folder_with_something_in_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(empty(folder.path()).is_ok());
    assert!(empty(&folder.path().join("new")).is_ok());
    assert!(empty(folder.path()).is_err());
}
