//! Bits read as another dtype: without a copy where the elements lie as they have to, else with one, and never of what is not a
//! value of the dtype.

use ubique_core::{DType, Device, Tensor};
use ubique_flex as _;

fn tensor(values: &[u8], shape: &[usize]) -> Tensor {
    let device = Device::new("flex").expect("flex opens on every machine");
    Tensor::from_slice(values, shape, &device).expect("values fit the shape")
}

#[test]
fn the_buffer_is_the_same_where_it_can_be() {
    let x = tensor(&[0; 64], &[8, 8]).cast(DType::F32).unwrap();
    let bits = x.bitcast(DType::I32).unwrap();
    assert!(bits.view().buffer.same(&x.view().buffer));
    assert!(x.bitcast(DType::U8).unwrap().view().buffer.same(&x.view().buffer));
    // A part of it and a transposed one are copied.
    assert_eq!(*x.narrow(0, 1, 2).unwrap().bitcast(DType::U16).unwrap().shape(), [2, 16]);
    assert!(!x.t().unwrap().bitcast(DType::I32).unwrap().view().buffer.same(&x.view().buffer));
}

#[test]
fn sizes_change_along_the_last_axis() {
    let values: Vec<u8> = (0..48).collect();
    let x = tensor(&values, &[2, 24]);
    let wide = x.bitcast(DType::U64).unwrap();
    assert_eq!(*wide.shape(), [2, 3]);
    let word = |at: usize| u64::from_ne_bytes(values[at..at + 8].try_into().unwrap());
    assert_eq!(wide.to_vec::<u64>().unwrap(), [0, 8, 16, 24, 32, 40].map(word));
    // Rows that begin anywhere, and elements a step apart.
    let odd = x.narrow(1, 3, 8).unwrap();
    assert_eq!(odd.bitcast(DType::I64).unwrap().to_vec::<i64>().unwrap(), [3, 27].map(|at| word(at) as i64));
    let second = x.slice(1, Some(0), None, 2).unwrap().bitcast(DType::U32).unwrap();
    assert_eq!(second.to_vec::<u32>().unwrap()[0], u32::from_ne_bytes([0, 2, 4, 6]));
    let back = wide.bitcast(DType::U8).unwrap();
    assert_eq!((back.shape().to_vec(), back.to_vec::<u8>().unwrap()), (vec![2, 24], values));
}

#[test]
fn bits_survive_whatever_they_stand_for() {
    // Signalling NaNs and a negative zero, byte by byte.
    let patterns = [0x7f80_0001u32, 0xffbf_ffff, 0x8000_0000, 1];
    let bytes: Vec<u8> = patterns.iter().flat_map(|bits| bits.to_ne_bytes()).collect();
    let x = tensor(&bytes, &[16]).bitcast(DType::F32).unwrap();
    assert_eq!(x.bitcast(DType::U32).unwrap().to_vec::<u32>().unwrap(), patterns);
    assert_eq!(x.contiguous().unwrap().bitcast(DType::U8).unwrap().to_vec::<u8>().unwrap(), bytes);
}

#[test]
fn what_does_not_fit_is_refused() {
    let fails = |x: Tensor, to: DType, part: &str| {
        let message = x.bitcast(to).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    fails(tensor(&[2], &[1]), DType::Bool, "x.ne(0)");
    fails(tensor(&[1, 2, 3], &[3]), DType::U16, "does not split");
    fails(tensor(&[1], &[]), DType::F32, "rank 0");
    let truths = tensor(&[0, 1], &[2]).cast(DType::Bool).unwrap();
    assert_eq!(truths.bitcast(DType::U8).unwrap().to_vec::<u8>().unwrap(), [0, 1]);
    assert_eq!(truths.bitcast(DType::Bool).unwrap().dtype(), DType::Bool);
}

#[test]
fn gradients_end_here() {
    let device = Device::new("flex").expect("flex opens on every machine").autodiff();
    let x = Tensor::ones([4], DType::F32, &device).unwrap().require_grad().unwrap();
    assert!(!x.bitcast(DType::I32).unwrap().is_tracked());
}
