//! The command as a user runs it, with mistakes.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

fn ubique(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ubique"));
    // Without what the user of this machine has installed.
    command.args(args).env_remove("UBIQUE_DEVICE").env("XDG_DATA_HOME", "/nowhere");
    command
}

fn run(args: &[&str]) -> Output {
    ubique(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one-line reason of a failure.
fn reason(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let text = stderr(output);
    let line = text.lines().last().unwrap_or_default().to_owned();
    assert!(line.starts_with("error: "), "{text}");
    line
}

/// Big-endian IDX files of a few images whose class shows in their brightest column.
fn write_data(dir: &Path, count: usize) {
    for (name, n) in [("train", count), ("t10k", count / 2)] {
        let mut images: Vec<u8> = [0x0803u32, n as u32, 28, 28].iter().flat_map(|v| v.to_be_bytes()).collect();
        let mut labels: Vec<u8> = [0x0801u32, n as u32].iter().flat_map(|v| v.to_be_bytes()).collect();
        for i in 0..n {
            let class = i % 10;
            images.extend((0..28 * 28).map(|p| if p % 28 / 2 == class { 250 } else { (p * 7 + i) as u8 % 32 }));
            labels.push(class as u8);
        }
        std::fs::write(dir.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(dir.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// Probing everything takes less than 200 ms where there is no driver to wait for. The machine may be busy with other
/// tests, so the best of several runs counts.
#[test]
fn probing_is_quick() {
    let time = || {
        let start = Instant::now();
        assert!(run(&["devices"]).status.success());
        start.elapsed()
    };
    let best = (0..40).map(|_| time()).find(|time| *time < Duration::from_millis(200));
    assert!(best.is_some(), "no run took less than 200 ms");
}

#[test]
fn a_backend_that_could_be_installed_is_explained() {
    let devices = json(&run(&["devices", "--json"]))["devices"].as_array().unwrap().clone();
    let libtorch = devices.iter().find(|d| d["device"] == "libtorch").unwrap();
    assert_eq!(libtorch["state"], "unavailable");
    assert!(libtorch["why"].as_str().unwrap().contains("tools/install-libtorch.sh"));
    assert!(reason(&run(&["verify", "--device", "libtorch"])).contains("tools/install-libtorch.sh"));
}

#[test]
fn ops_are_listed_in_a_form_that_plugins_read() {
    let ops = json(&run(&["ops", "--json"]))["ops"].as_array().unwrap().clone();
    let softmax = ops.iter().find(|op| op["name"] == "softmax").unwrap();
    assert!(softmax["op"]["softmax"]["axis"].is_u64());
    assert_eq!(softmax["operands"], softmax["results"]);
    let forms = json(&run(&["ops", "--op", "conv", "--json"]))["ops"].as_array().unwrap().len();
    assert!(forms > 10, "{forms} forms of conv");
    assert_eq!(run(&["ops", "--op", "nothing"]).status.code(), Some(2));
}

#[test]
fn devices_are_listed() {
    let devices = json(&run(&["devices", "--json"]))["devices"].as_array().unwrap().clone();
    let flex = devices.iter().find(|d| d["device"] == "flex:0").unwrap();
    assert_eq!(flex["state"], "ready");
    let table = run(&["devices"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("flex:0"));
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    assert_eq!(run(&["trian"]).status.code(), Some(2));
    assert_eq!(run(&["train", "--epochs", "0"]).status.code(), Some(2));
    assert_eq!(run(&["predict"]).status.code(), Some(2));
    assert_eq!(run(&["train", "--learning-rate", "nan"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "--device", "flex:x"]).status.code(), Some(2));
    let misspelt = run(&["bench", "--work", "ad_4M"]);
    assert_eq!(misspelt.status.code(), Some(2));
    assert!(stderr(&misspelt).contains("add_4M"), "{}", stderr(&misspelt));
    let unknown = reason(&run(&["train", "--device", "warp:0"]));
    assert!(unknown.contains("warp") && unknown.contains("flex"), "{unknown}");
    let mistaken = reason(&ubique(&["train"]).env("UBIQUE_DEVICE", "nonsense").output().unwrap());
    assert!(mistaken.contains("UBIQUE_DEVICE=nonsense") && mistaken.contains("known are"), "{mistaken}");
}

#[test]
fn bench_prints_the_form_of_its_peers() {
    let line = json(&run(&["bench", "--json", "--seconds", "0.01", "--threads", "1", "--work", "matmul_64"]));
    assert_eq!((&line["peer"], &line["work"]), (&"ubique".into(), &"matmul_64".into()));
    assert!(line["ms"].as_f64().unwrap() > 0.0 && line["n"].as_u64().unwrap() >= 5);
}

/// The name of the device that `auto` is, run in a directory with a user's folder of configurations in it.
fn auto(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = ubique(&["bench", "--json", "--seconds", "0.01", "--work", "matmul_64"]);
    command.args(arguments).current_dir(directory).env("XDG_CONFIG_HOME", directory.join("user"));
    command.output().unwrap()
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the user's folder lies where no variable says
fn config_files_say_what_auto_is() {
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().join("project");
    let within = project.join("within");
    std::fs::create_dir_all(&within).unwrap();
    std::fs::create_dir_all(within.join("user/ubique")).unwrap();
    let write = |file: std::path::PathBuf, text: &str| std::fs::write(file, text).unwrap();
    let user = within.join("user/ubique/ubique.toml");
    assert_eq!(json(&auto(&within, &[]))["device"], "flex:0");
    write(user.clone(), "device = 'warp,flex?threads=1'");
    assert_eq!(json(&auto(&within, &[]))["device"], "flex:0?threads=1");
    // The project's file, also from a folder below, beats the user's, and the command line both.
    write(project.join("ubique.toml"), "# ours\ndevice = 'flex?threads=2'\n");
    assert_eq!(json(&auto(&within, &[]))["device"], "flex:0?threads=2");
    assert_eq!(json(&auto(&within, &["--threads", "1"]))["device"], "flex:0?threads=1");
    assert_eq!(json(&auto(&within, &["--device", "warp,auto?threads=1"]))["device"], "flex:0?threads=1");
    write(project.join("ubique.toml"), "");
    assert_eq!(json(&auto(&within, &[]))["device"], "flex:0?threads=1");
    // Mistakes name the file and the place in it.
    for (text, why) in [
        ("device = 'warp,gpu'", "warp:0: no backend is called"),
        ("device = 'flex?speed=9'", "unknown option"),
        ("devise = 'flex'", "devise"),
        ("device = ", "line 1"),
    ] {
        write(project.join("ubique.toml"), text);
        let reason = stderr(&auto(&within, &[]));
        let file = project.join("ubique.toml").display().to_string();
        assert!(reason.contains(why) && reason.contains(&file), "{reason}");
    }
}

#[test]
fn trains_resumes_and_predicts() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    write_data(dir.path(), 200);
    let (data, out) = (path(""), path("out"));
    let train = |epochs: &str, more: &[&str]| {
        let mut args = vec!["train", "--json", "--data", &data, "--out", &out, "--batch", "20", "--epochs", epochs];
        args.extend(more);
        run(&args)
    };
    let first = json(&train("1", &[]));
    assert_eq!(first["epochs"], 1);
    let second = json(&train("4", &["--resume"]));
    assert_eq!(second["epochs"], 4);
    assert!(second["test_accuracy"].as_f64().unwrap() > 0.95, "{second}");
    assert!(second["seconds"].as_f64().unwrap() > first["seconds"].as_f64().unwrap());
    let report = std::fs::read_to_string(path("out/report.html")).unwrap();
    assert!(report.contains("<svg") && report.contains("Sneaker"));

    let image = path("bright.png");
    let mut encoder = png::Encoder::new(std::fs::File::create(&image).unwrap(), 28, 28);
    encoder.set_color(png::ColorType::Grayscale);
    let pixels: Vec<u8> = (0..28 * 28).map(|p| if p % 28 / 2 == 7 { 250 } else { 10 }).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    let model = path("out/model.safetensors");
    let prediction = json(&run(&["predict", "--json", "--model", &model, &image]));
    assert_eq!(prediction["class"], 7);
    assert_eq!(prediction["probabilities"].as_array().unwrap().len(), 10);

    // Damaged inputs: each says which file, and the good model stays.
    let whole = std::fs::read(&model).unwrap();
    std::fs::write(path("cut.safetensors"), &whole[..whole.len() / 2]).unwrap();
    let cut = reason(&run(&["predict", "--model", &path("cut.safetensors"), &image]));
    assert!(cut.contains("cut.safetensors"), "{cut}");
    let missing = reason(&run(&["predict", "--model", &path("none.safetensors"), &image]));
    assert!(missing.contains("none.safetensors"), "{missing}");
    std::fs::write(path("bad.png"), b"not a png").unwrap();
    assert!(reason(&run(&["predict", "--model", &model, &path("bad.png")])).contains("bad.png"));
    std::fs::write(path("train-images-idx3-ubyte"), b"\0\0\x08\x03\0\0").unwrap();
    assert!(reason(&train("5", &["--resume"])).contains("train-images-idx3-ubyte"));
    assert_eq!(std::fs::read(&model).unwrap(), whole);
}
