//! Plugins, disabled backends, the doctor and the choice of a device, as a user meets them: with folders and config files.
#![cfg(target_os = "linux")] // elsewhere the user's folder of configurations lies where no variable says

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command in a folder, which is also the user's folder of configurations.
fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ubique"));
    command.args(args).env_remove("UBIQUE_DEVICE").env_remove("UBIQUE_PLUGIN_PATH");
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn device<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let found = listed["devices"].as_array().unwrap().iter().find(|row| row["device"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {listed}"))
}

fn write(folder: &Path, config: &str) {
    std::fs::write(folder.join("ubique.toml"), config).unwrap();
}

/// Builds the example backend in C into a folder of libraries.
fn build_plugin(libraries: &Path) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::fs::create_dir_all(libraries).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-I{root}/crates/ubique-plugin/include")])
        .arg(format!("{root}/examples/plugin-c/plugin.c"))
        .args(["-lm", "-o"])
        .arg(libraries.join("libplugin_c.so"))
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn plugins_are_named_in_the_config_file() {
    let folder = tempfile::tempdir().unwrap();
    build_plugin(&folder.path().join("lib"));
    write(folder.path(), "plugins = ['lib', 'missing.so']\n");
    let listed = json(&run(folder.path(), &["devices", "--json"]));
    assert_eq!(device(&listed, "example_c:0")["state"], "ready");
    let missing = device(&listed, "missing");
    assert_eq!(missing["state"], "unavailable");
    assert!(missing["why"].as_str().unwrap().contains("missing.so: No such file"), "{missing}");

    let examined = json(&run(folder.path(), &["doctor", "--json"]));
    assert_eq!(examined["auto"], "flex:0");
    for name in ["flex:0", "example_c:0"] {
        let found = device(&examined, name);
        assert!(found["health"] == "well" && found["next_ms"].as_f64().unwrap() > 0.0, "{found}");
    }
    let verified =
        run(folder.path(), &["verify", "--device", "example_c", "--op", "add", "matmul", "softmax", "--json"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
}

#[test]
fn disabled_backends_are_never_used() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "disabled = ['flex']\n");
    let listed = json(&run(folder.path(), &["devices", "--json"]));
    let flex = device(&listed, "flex");
    let file = folder.path().join("ubique.toml").display().to_string();
    assert!(flex["state"] == "disabled" && flex["why"].as_str().unwrap().contains(&file), "{flex}");
    for name in ["flex", "flex:0,gpu"] {
        let refused = run(folder.path(), &["bench", "--device", name, "--work", "matmul_64"]);
        assert_eq!(refused.status.code(), Some(1));
        let why = stderr(&refused);
        assert!(why.contains("flex") && why.contains("disabled in") && why.contains(&file), "{why}");
    }
    write(folder.path(), "disabled = 'flex'\n");
    let listed = json(&run(folder.path(), &["devices", "--json"]));
    assert!(device(&listed, "ubique.toml")["why"].as_str().unwrap().contains("disabled"), "{listed}");
}

#[test]
fn the_fastest_device_is_written_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ubique/ubique.toml");
    let choose = |more: &[&str]| {
        let args = [&["bench", "--choose", "--json", "--seconds", "0.001"], more].concat();
        let output = run(folder.path(), &args);
        assert!(output.status.success(), "{}", stderr(&output));
        json(&output)
    };
    let chosen = choose(&[]);
    assert!(chosen["written"].is_null() && !file.exists(), "{chosen}");
    let chosen = choose(&["--write"]);
    let best = chosen["devices"][0]["device"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("device = \"{best}\"\n"));
    assert_eq!(run(folder.path(), &["bench", "--write"]).status.code(), Some(2));
}
