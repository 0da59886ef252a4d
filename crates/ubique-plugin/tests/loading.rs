//! Stand-in libraries that are broken in every way: each is a reason to show, none stops the program or the others.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use ubique_core::dispatch::{Probed, State};
use ubique_core::{Device, Dispatch, ErrorKind};
use ubique_plugin as _;

/// What every stand-in begins with: a table of functions that are never called.
const HEAD: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include "ubique_backend_v1.h"
static void *const NEVER = (void *)1;
#define TABLE(NAME, PROBE) {.size = sizeof(ubique_backend), .version = UBIQUE_ABI_VERSION, .id = 210, .name = NAME, \
    .probe = PROBE, .open_device = NEVER, .close_device = NEVER, .prepare_op = NEVER, .free_op = NEVER, .supports = NEVER, \
    .upload = NEVER, .download = NEVER, .free_buffer = NEVER, .execute = NEVER}
static ubique_code none(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)d, (void)n, (void)e; *count = 0; return UBIQUE_OK;
}
static ubique_code no_driver(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)d, (void)n, (void)count;
    snprintf(e->message, sizeof e->message, "the driver libexample.so.1 is missing");
    snprintf(e->hint, sizeof e->hint, "install example-driver");
    return UBIQUE_UNAVAILABLE;
}
static ubique_code hang(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)d, (void)n, (void)count, (void)e; for (;;) sleep(1000);
}
static ubique_code too_many(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)d, (void)n, (void)e; *count = (size_t)-1; return UBIQUE_OK;
}
static ubique_code strange(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)n, (void)e; d[0].kind = 77; *count = 1; return UBIQUE_OK;
}
static ubique_code gone(void *c, ubique_device_info *d, size_t n, size_t *count, ubique_error *e) {
    (void)c, (void)n, (void)e; d[0].kind = UBIQUE_DISCRETE_GPU; d[0].unavailable = 1; *count = 1;
    snprintf(d[0].why.message, sizeof d[0].why.message, "the card has fallen off the bus");
    return UBIQUE_OK;
}
static __attribute__((unused)) void *const USED[] = {none, no_driver, hang, too_many, strange, gone};
"#;

/// The stand-ins, by file, with the rest of their source.
const LIBRARIES: &[(&str, &str)] = &[
    ("a_nothing", "int unrelated;"),
    ("b_null", "const ubique_backend *ubique_backend_v1(void) { return 0; }"),
    (
        "c_version",
        "static ubique_backend T = TABLE(\"c_version\", none);
         const ubique_backend *ubique_backend_v1(void) { T.version = 9; return &T; }",
    ),
    (
        "d_short",
        "static ubique_backend T = TABLE(\"d_short\", none);
         const ubique_backend *ubique_backend_v1(void) { T.size = 64; return &T; }",
    ),
    (
        "e_lacks",
        "static ubique_backend T = TABLE(\"e_lacks\", none);
         const ubique_backend *ubique_backend_v1(void) { T.execute = 0; return &T; }",
    ),
    (
        "f_symbol",
        "extern int no_such_symbol(void); const ubique_backend *ubique_backend_v1(void) { return (void *)(size_t)no_such_symbol(); }",
    ),
    ("g_loading_hangs", "const ubique_backend *ubique_backend_v1(void) { for (;;) sleep(1000); }"),
    (
        "h_name",
        "static ubique_backend T = TABLE(\"No Name\", none); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "i_zero",
        "static ubique_backend T = TABLE(\"zero\", none); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "j_driver",
        "static ubique_backend T = TABLE(\"driver\", no_driver); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "k_hang",
        "static ubique_backend T = TABLE(\"hang\", hang); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "l_many",
        "static ubique_backend T = TABLE(\"many\", too_many); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "m_strange",
        "static ubique_backend T = TABLE(\"strange\", strange); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
    (
        "n_gone",
        "static ubique_backend T = TABLE(\"gone\", gone); const ubique_backend *ubique_backend_v1(void) { return &T; }",
    ),
];

fn build(folder: &Path, name: &str, source: &str) {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, format!("{HEAD}{source}\n")).unwrap();
    let library = folder.join(format!("lib{name}.{}", std::env::consts::DLL_EXTENSION));
    let include = format!("-I{}/include", env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-w", &include, "-o"]).arg(library).arg(file).status();
    assert!(status.unwrap().success(), "{name}");
}

/// Builds the stand-ins and names them to the registry, before it is first asked.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    LIBRARIES.iter().for_each(|(name, source)| build(folder.path(), name, source));
    std::fs::write(folder.path().join("libz_text.so"), "this is no library").unwrap();
    let places = [folder.path().to_owned(), PathBuf::from("/no/such/folder")];
    // SAFETY: no test of this binary reads the environment before this has run.
    unsafe { std::env::set_var("UBIQUE_PLUGIN_PATH", std::env::join_paths(places).unwrap()) };
    folder
});

fn reason(probed: &[Probed], name: &str) -> String {
    let found = probed.iter().find(|p| p.backend == name).unwrap_or_else(|| panic!("{name} is not in {probed:?}"));
    match &found.state {
        State::Unavailable(why) => why.to_string(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn every_broken_library_is_listed_with_its_reason() {
    LazyLock::force(&FOLDER);
    let start = Instant::now();
    let probed = Dispatch::probe();
    // Two hang, one of them when it is loaded; the probes themselves run side by side.
    assert!(start.elapsed() < Duration::from_secs(14), "{:?}", start.elapsed());
    for (name, why) in [
        ("a_nothing", "no symbol ubique_backend_v1"),
        ("b_null", "gave no table"),
        ("c_version", "version 9"),
        ("d_short", "64 bytes"),
        ("e_lacks", "lacks execute"),
        ("f_symbol", "no_such_symbol"),
        ("g_loading_hangs", "no answer within 5 s"),
        ("No Name", "lower-case"),
        ("zero", "found no device"),
        ("driver", "libexample.so.1 is missing (install example-driver)"),
        ("hang", "no answer within 5 s"),
        ("many", "18446744073709551615 devices"),
        ("strange", "kind 77"),
        ("z_text", "cannot be loaded"),
        ("folder", "No such file"),
    ] {
        let said = reason(&probed, name);
        assert!(said.contains(why), "{name}: {said}");
    }
    // What hung once is not asked again, so that programs do not wait for it each time.
    let start = Instant::now();
    assert!(reason(&Dispatch::probe(), "hang").contains("earlier"));
    assert!(start.elapsed() < Duration::from_secs(1));

    for (name, kind, why) in [
        ("driver", ErrorKind::Unavailable, "install example-driver"),
        ("c_version", ErrorKind::Unavailable, "version 9"),
        ("gone", ErrorKind::Unavailable, "fallen off the bus"),
        ("gpu", ErrorKind::Unavailable, "gone:0: the card has fallen off the bus"),
        ("never_heard_of", ErrorKind::Device, "known are"),
    ] {
        let error = Device::new(name).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(why), "{error:?}");
    }
}
