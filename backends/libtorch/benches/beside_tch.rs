//! Ops through ubique, from the tensor's method through the plugin's interface to LibTorch, beside the same calls of `tch`.
//!
//! `cargo bench --bench beside_tch [-- PART OF A NAME]` loads the plugin that the bench was built with. Rounds of both alternate, so that the
//! machine's moods meet both; the table has the medians.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ubique_core::{DType, Device, Tensor};
use ubique_libtorch as _;
use ubique_plugin as _;

/// Rounds of each side, and about how long one takes.
const ROUNDS: usize = 41;
const ROUND: Duration = Duration::from_millis(5);

struct Work {
    name: String,
    tch: Box<dyn Fn()>,
    ubique: Box<dyn Fn()>,
}

fn main() {
    let exe = std::env::current_exe().expect("a program has a path");
    let plugin =
        exe.with_file_name(format!("{}ubique_libtorch{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("UBIQUE_PLUGIN_PATH", &plugin) };
    for threads in [1, 2] {
        let device = Device::new(&format!("libtorch?threads={threads}")).expect("the plugin loads");
        tch::set_num_threads(threads);
        println!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        for work in works(&device) {
            let [tch, ubique] = measure(&work);
            println!("  {:24} tch {:>10.0} ns  ubique {:>10.0} ns  ratio {:.2}", work.name, tch, ubique, ubique / tch);
        }
    }
}

/// Whether a work's name has the text that the command line asks for.
fn wanted(name: &str) -> bool {
    std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).all(|text| name.contains(&text))
}

/// Medians of the time of one call of each side, in nanoseconds.
fn measure(work: &Work) -> [f64; 2] {
    // Warm, and then how long one call takes.
    time(&work.ubique, 20);
    time(&work.tch, 20);
    let once = time(&work.tch, 20).max(50.0);
    let calls = ((ROUND.as_nanos() as f64 / once) as usize).clamp(1, 20_000);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, times) in [&work.tch, &work.ubique].into_iter().zip(&mut times) {
            times.push(time(side, calls));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn time(side: &dyn Fn(), calls: usize) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| side());
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn pair(shape: &[usize], device: &Device) -> (tch::Tensor, Tensor) {
    let host = Tensor::normal(shape, 0.0, 1.0, DType::F32, device).expect("a tensor");
    let values = host.to_vec::<f32>().expect("values");
    let size: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    (tch::Tensor::from_slice(&values).reshape(&size), host)
}

fn works(device: &Device) -> Vec<Work> {
    let mut works = Vec::new();
    for n in [8, 1024, 65_536, 1 << 20] {
        works.extend(binary(&format!("add {n}"), &[n], device, |a, b| a + b, |a, b| a.add(b)));
        works.extend(unary(&format!("relu {n}"), &[n], device, |x| x.relu(), |x| x.relu()));
        works.extend(unary(&format!("mul scalar {n}"), &[n], device, |x| x * 1.5, |x| x.mul(1.5)));
    }
    for n in [8, 64, 512] {
        works.extend(binary(&format!("matmul {n}"), &[n, n], device, |a, b| a.matmul(b), |a, b| a.matmul(b)));
    }
    for (rows, columns) in [(8, 16), (256, 512)] {
        let name = |what: &str| format!("{what} {rows}x{columns}");
        let shape = [rows, columns];
        works.extend(unary(&name("sum"), &shape, device, |x| x.sum_dim_intlist(1i64, false, None), |x| x.sum(&[1])));
        works.extend(unary(&name("softmax"), &shape, device, |x| x.softmax(-1, None), |x| x.softmax(-1)));
        works.extend(unary(
            &name("exp of transposed"),
            &shape,
            device,
            |x| x.tr().exp().contiguous(),
            |x| x.t()?.exp(),
        ));
    }
    works
}

fn unary(
    name: &str,
    shape: &[usize],
    device: &Device,
    theirs: impl Fn(&tch::Tensor) -> tch::Tensor + 'static,
    ours: impl Fn(&Tensor) -> ubique_core::Result<Tensor> + 'static,
) -> Option<Work> {
    if !wanted(name) {
        return None;
    }
    let (tch, ubique) = pair(shape, device);
    Some(Work {
        name: name.to_owned(),
        tch: Box::new(move || drop(black_box(theirs(&tch)))),
        ubique: Box::new(move || drop(black_box(ours(&ubique).expect("the op runs")))),
    })
}

fn binary(
    name: &str,
    shape: &[usize],
    device: &Device,
    theirs: impl Fn(&tch::Tensor, &tch::Tensor) -> tch::Tensor + 'static,
    ours: impl Fn(&Tensor, &Tensor) -> ubique_core::Result<Tensor> + 'static,
) -> Option<Work> {
    if !wanted(name) {
        return None;
    }
    let ((a, ours_a), (b, ours_b)) = (pair(shape, device), pair(shape, device));
    Some(Work {
        name: name.to_owned(),
        tch: Box::new(move || drop(black_box(theirs(&a, &b)))),
        ubique: Box::new(move || drop(black_box(ours(&ours_a, &ours_b).expect("the op runs")))),
    })
}
