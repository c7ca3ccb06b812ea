use crate::catalog::sidecar;
use crate::service::Service;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn index(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stella-scheduler")).args(["--json", "index"]).args(words).output().unwrap()
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_snapshot_of_a_running_service_is_restored_after_its_index_is_lost() {
    let mut service = Service::start(json!({})).await;
    let lines: Vec<String> = (0..300).map(|number| sidecar(number).to_string()).collect();
    let client = service.client("default");
    let put = client.request(reqwest::Method::POST, "/images/bulk").body(lines.join("\n"));
    assert!(client.send(put).await.is_success());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.snapshot");
    std::fs::write(&file, "what was there before").unwrap();

    let taken = answer(&index(&["--server", client.address(), "snapshot", text(&file)]));
    assert_eq!((&taken["images"], &taken["sequence"]), (&json!(300), &json!(300)));
    assert_eq!(taken["bytes"], std::fs::metadata(&file).unwrap().len());
    let beside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");

    // A link leads to the file that is replaced, whose mode stays; what is no file stays what it is.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    answer(&index(&["--server", client.address(), "snapshot", text(&link)]));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    std::fs::remove_file(&link).unwrap();
    for (target, told) in [(text(folder.path()), "no ordinary file"), ("-", "goes to a file")] {
        let refused = index(&["--server", client.address(), "snapshot", target]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && said.contains(told), "{said}");
    }

    // What comes later is not in it.
    let later = client.put(&format!("/images/{}/bom-index", crate::catalog::digest(300)), &sidecar(300)).await;
    assert!(later.is_success());
    let running = index(&["restore", text(&file), "--data-dir", text(service.data())]);
    assert!(!running.status.success());
    assert!(String::from_utf8_lossy(&running.stderr).contains("stop it"), "{running:?}");
    service.stop().await;

    std::fs::remove_dir_all(service.data().join("index")).unwrap();
    let restored = answer(&index(&["restore", text(&file), "--data-dir", text(service.data())]));
    assert_eq!((&restored["images"], &restored["checkpointedSequence"]), (&json!(301), &json!(301)));
    assert_eq!(answer(&index(&["verify", "--data-dir", text(service.data())]))["equal"], json!(true));
    // The same while the service is down.
    let again = answer(&index(&["snapshot", text(&file), "--data-dir", text(service.data())]));
    assert_eq!((&again["images"], &again["sequence"]), (&json!(301), &json!(301)));

    let mut torn = std::fs::read(&file).unwrap();
    torn.truncate(torn.len() - 1);
    std::fs::write(&file, torn).unwrap();
    let refused = index(&["restore", text(&file), "--data-dir", text(service.data())]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the snapshot is torn or altered"), "{said}");

    service.spawn().await;
    let verified = service.client("default").post("/admin/index/verify", &json!({})).await;
    assert_eq!(verified.body["equal"], json!(true), "{}", verified.text);
}
