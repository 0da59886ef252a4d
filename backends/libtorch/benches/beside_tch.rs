//! Ops through ubique, from the tensor's method through the plugin's interface to LibTorch, beside the same calls of `tch`.
//!
//! `cargo bench --bench beside_tch [-- PART OF A NAME]` loads the plugin that the bench was built with. The calls of `tch` run
//! in a process of their own, because the plugin gives all of LibTorch in its process memory from a pool, which makes them
//! faster too. Rounds of both alternate, so that the machine's moods meet both; the table has the medians.

use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tch::{Kind, Tensor as Theirs};
use ubique_core::{DType, Device, Result, Tensor};
use ubique_libtorch as _;
use ubique_plugin as _;

/// Rounds of each side, and about how long one takes.
const ROUNDS: usize = 101;
const ROUND: Duration = Duration::from_millis(5);

/// What tells the bench to be the other process, which takes rounds on its input and gives their times on its output.
const AS_TCH: &str = "--as-tch";

/// Whose calls are timed.
enum Side {
    Tch,
    Ubique(Device),
}

struct Work {
    name: String,
    run: Box<dyn Fn()>,
}

fn main() -> io::Result<()> {
    if env::args().any(|argument| argument == AS_TCH) {
        return serve();
    }
    let plugin = format!("{}ubique_libtorch{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    // SAFETY: no other thread runs yet.
    unsafe { env::set_var("UBIQUE_PLUGIN_PATH", env::current_exe()?.with_file_name(plugin)) };
    let mut other = Other::start()?;
    for threads in [1, 2] {
        let device = Device::new(&format!("libtorch?threads={threads}")).expect("the plugin loads");
        println!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        for (index, work) in works(&Side::Ubique(device)).iter().enumerate().filter(|(_, work)| wanted(&work.name)) {
            let [tch, ubique, ratio] = measure(work, |calls| other.time(threads, index, calls))?;
            println!("  {:24} tch {tch:>10.0} ns  ubique {ubique:>10.0} ns  ratio {ratio:.2}", work.name);
        }
    }
    Ok(())
}

/// Whether a work's name has the text that the command line asks for.
fn wanted(name: &str) -> bool {
    env::args().skip(1).filter(|argument| !argument.starts_with('-')).all(|text| name.contains(&text))
}

/// Medians of the time of one call of each side, in nanoseconds, and of the ratios of rounds that stood beside each other.
fn measure(work: &Work, mut tch: impl FnMut(usize) -> io::Result<f64>) -> io::Result<[f64; 3]> {
    // Warm, and then how long one call takes.
    time(work, 20);
    tch(20)?;
    let calls = ((ROUND.as_nanos() as f64 / tch(20)?.max(50.0)) as usize).clamp(1, 20_000);
    let mut figures = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let (tch, ubique) = (tch(calls)?, time(work, calls));
        for (list, figure) in figures.iter_mut().zip([tch, ubique, ubique / tch]) {
            list.push(figure);
        }
    }
    Ok(figures.map(|mut list| {
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    }))
}

fn time(work: &Work, calls: usize) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| (work.run)());
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// The process that calls `tch`.
struct Other {
    process: Child,
    orders: ChildStdin,
    times: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> io::Result<Other> {
        let mut command = Command::new(env::current_exe()?);
        let mut process = command.arg(AS_TCH).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (orders, times) = (process.stdin.take(), process.stdout.take());
        let (orders, times) = orders.zip(times).ok_or_else(|| io::Error::other("the process has no pipes"))?;
        Ok(Other { process, orders, times: BufReader::new(times) })
    }

    fn time(&mut self, threads: usize, work: usize, calls: usize) -> io::Result<f64> {
        writeln!(self.orders, "{threads} {work} {calls}")?;
        let mut answer = String::new();
        self.times.read_line(&mut answer)?;
        answer.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It ends by itself with its input; nothing is lost where that fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve() -> io::Result<()> {
    let works = works(&Side::Tch);
    for order in io::stdin().lines() {
        let order = order?;
        let numbers =
            order.split(' ').map(|n| n.parse().map_err(io::Error::other)).collect::<io::Result<Vec<usize>>>()?;
        let [threads, work, calls] = numbers[..] else { return Err(io::Error::other(format!("odd order {order:?}"))) };
        if tch::get_num_threads() != threads as i32 {
            tch::set_num_threads(threads as i32);
        }
        println!("{}", time(&works[work], calls));
    }
    Ok(())
}

fn works(side: &Side) -> Vec<Work> {
    let mut works = Vec::new();
    for n in [8, 1024, 65_536, 1 << 20] {
        works.push(binary(&format!("add {n}"), &[n], side, |a, b| a + b, |a, b| a.add(b)));
        works.push(unary(&format!("relu {n}"), &[n], side, |x| x.relu(), |x| x.relu()));
        works.push(unary(&format!("mul scalar {n}"), &[n], side, |x| x * 1.5, |x| x.mul(1.5)));
    }
    for n in [8, 64, 512] {
        works.push(binary(&format!("matmul {n}"), &[n, n], side, |a, b| a.matmul(b), |a, b| a.matmul(b)));
    }
    for (rows, columns) in [(8, 16), (256, 512)] {
        let name = |what: &str| format!("{what} {rows}x{columns}");
        let shape = [rows, columns];
        works.push(unary(&name("sum"), &shape, side, |x| x.sum_dim_intlist(1i64, false, None), |x| x.sum(&[1])));
        works.push(unary(&name("softmax"), &shape, side, |x| x.softmax(-1, None), |x| x.softmax(-1)));
        works.push(unary(&name("exp of transposed"), &shape, side, |x| x.tr().exp().contiguous(), |x| x.t()?.exp()));
    }
    works
}

fn theirs(shape: &[usize]) -> Theirs {
    let size: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    Theirs::randn(&size[..], (Kind::Float, tch::Device::Cpu))
}

fn ours(shape: &[usize], device: &Device) -> Tensor {
    Tensor::normal(shape, 0.0, 1.0, DType::F32, device).expect("a tensor")
}

fn unary(
    name: &str,
    shape: &[usize],
    side: &Side,
    tch: impl Fn(&Theirs) -> Theirs + 'static,
    ubique: impl Fn(&Tensor) -> Result<Tensor> + 'static,
) -> Work {
    binary(name, shape, side, move |x, _| tch(x), move |x, _| ubique(x))
}

fn binary(
    name: &str,
    shape: &[usize],
    side: &Side,
    tch: impl Fn(&Theirs, &Theirs) -> Theirs + 'static,
    ubique: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Work {
    let run: Box<dyn Fn()> = match side {
        Side::Tch => {
            let (a, b) = (theirs(shape), theirs(shape));
            Box::new(move || drop(black_box(tch(&a, &b))))
        }
        Side::Ubique(device) => {
            let (a, b) = (ours(shape, device), ours(shape, device));
            Box::new(move || drop(black_box(ubique(&a, &b).expect("the op runs"))))
        }
    };
    Work { name: name.to_owned(), run }
}
