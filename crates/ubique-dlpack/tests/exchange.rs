//! Tensors leave and come back, with every layout; what another library could get wrong is an error, and all memory is released.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use ubique_core::{DType, Device, Dispatch, ErrorKind, HostTensor, Tensor};
use ubique_dlpack::{Capsule, abi};
use ubique_flex as _;

fn flex() -> Device {
    Device::new("flex").unwrap()
}

fn cube() -> Tensor {
    Tensor::from_vec((0..24).map(|i| i as f32).collect(), [2, 3, 4], &flex()).unwrap()
}

fn start(tensor: &Tensor) -> *const u8 {
    tensor.view().buffer.host_bytes().unwrap().as_ptr()
}

fn back(tensor: &Tensor) -> Tensor {
    // SAFETY: made here, and taken over once.
    let capsule = unsafe { Capsule::from_raw(Capsule::new(tensor).unwrap().into_raw()) };
    capsule.unwrap().into_tensor(&flex()).unwrap()
}

#[test]
fn every_layout_comes_back_the_same() {
    let x = cube();
    let scalar = Tensor::full([], 7.0, DType::F32, &flex()).unwrap();
    let dense = [x.clone(), x.permute(&[2, 0, 1]).unwrap(), x.flip(&[0, 2]).unwrap(), x.reshape([6, 4]).unwrap()];
    for tensor in &dense {
        let again = back(tensor);
        assert_eq!((again.spec(), again.to_vec::<f32>().unwrap()), (tensor.spec(), tensor.to_vec::<f32>().unwrap()));
        assert_eq!(start(&again), start(&x), "{:?} was copied", tensor.layout());
    }
    let sparse = [
        x.narrow(1, 1, 2).unwrap(),
        x.slice(2, None, None, 2).unwrap(),
        x.narrow(0, 0, 1).unwrap().expand([5, 3, 4]).unwrap(),
        x.narrow(0, 0, 0).unwrap(),
        scalar,
    ];
    for tensor in &sparse {
        let again = back(tensor);
        assert_eq!((again.spec(), again.to_vec::<f32>().unwrap()), (tensor.spec(), tensor.to_vec::<f32>().unwrap()));
    }
}

#[test]
fn every_dtype_comes_back_the_same() {
    for dtype in DType::ALL {
        let values = (0..6).map(|i| (i % 2).into());
        let host = HostTensor::from_scalars(values, dtype, [2, 3]).unwrap();
        let tensor = Tensor::from_host(host, &flex()).unwrap();
        let again = back(&tensor);
        assert_eq!(again.dtype(), dtype);
        assert_eq!(again.to_host().unwrap().bytes(), tensor.to_host().unwrap().bytes());
    }
}

#[test]
fn other_devices_give_copies() {
    Dispatch::register(Box::new(ubique_sim::Sim::new("sim", 200, Default::default()))).unwrap();
    let far = cube().to_device(&Device::new("sim").unwrap()).unwrap();
    let capsule = Capsule::new(&far.permute(&[1, 0, 2]).unwrap()).unwrap();
    assert_eq!(capsule.managed().flags, abi::READ_ONLY | abi::IS_COPIED);
    assert_eq!(Capsule::new(&cube()).unwrap().managed().flags, abi::READ_ONLY);
    let near = capsule.into_tensor(&flex()).unwrap();
    assert_eq!(near.to_vec::<f32>().unwrap(), cube().permute(&[1, 0, 2]).unwrap().to_vec::<f32>().unwrap());
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);

/// What another library would hand over: six i32 and their description.
struct Foreign {
    data: [i32; 6],
    shape: [i64; 2],
    strides: [i64; 2],
}

unsafe extern "C" fn release(managed: *mut abi::ManagedTensor) {
    RELEASED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: both boxes are of `foreign`.
    unsafe {
        drop(Box::from_raw((*managed).manager_ctx.cast::<Foreign>()));
        drop(Box::from_raw(managed));
    }
}

fn foreign(change: impl FnOnce(&mut abi::ManagedTensor, &mut Foreign)) -> ubique_core::Result<Tensor> {
    let mut owner = Box::new(Foreign { data: [1, 2, 3, 4, 5, 6], shape: [2, 3], strides: [3, 1] });
    let mut managed = Box::new(abi::ManagedTensor {
        version: abi::Version { major: 1, minor: 0 },
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(release),
        flags: 0,
        tensor: abi::Tensor {
            data: owner.data.as_mut_ptr().cast::<c_void>(),
            device: abi::Device { device_type: abi::CPU, device_id: 0 },
            ndim: 2,
            dtype: abi::DataType { code: 0, bits: 32, lanes: 1 },
            shape: owner.shape.as_mut_ptr(),
            strides: owner.strides.as_mut_ptr(),
            byte_offset: 0,
        },
    });
    change(&mut managed, &mut owner);
    managed.manager_ctx = Box::into_raw(owner).cast();
    // SAFETY: made above, and taken over once.
    unsafe { Capsule::from_raw(Box::into_raw(managed)) }?.into_tensor(&flex())
}

#[test]
fn foreign_tensors_are_checked_and_always_released() {
    let x = foreign(|_, _| {}).unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
    let y = x.t().unwrap();
    drop(x);
    assert_eq!(y.to_vec::<i32>().unwrap(), [1, 4, 2, 5, 3, 6]);
    drop(y);
    assert_eq!(RELEASED.swap(0, Ordering::SeqCst), 1);

    let row_major = foreign(|managed, _| managed.tensor.strides = std::ptr::null_mut()).unwrap();
    assert_eq!(row_major.to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
    // From the second element on, backwards through the rows.
    let later = foreign(|managed, owner| {
        (managed.tensor.byte_offset, owner.shape, owner.strides) = (16, [2, 2], [-3, 1]);
    });
    assert_eq!(later.unwrap().to_vec::<i32>().unwrap(), [5, 6, 2, 3]);
    drop(row_major);
    assert_eq!(RELEASED.swap(0, Ordering::SeqCst), 2);

    type Change = fn(&mut abi::ManagedTensor, &mut Foreign);
    let mistakes: [(Change, ErrorKind, &str); 8] = [
        (|m, _| m.version.major = 2, ErrorKind::Unsupported, "DLPack 2.0"),
        (|m, _| m.tensor.device.device_type = 2, ErrorKind::Device, "type 2"),
        (|m, _| m.tensor.dtype.bits = 4, ErrorKind::DType, "4 bits"),
        (|m, _| m.tensor.dtype.lanes = 2, ErrorKind::DType, "2 lanes"),
        (|m, _| m.tensor.ndim = -1, ErrorKind::Shape, "-1 axes"),
        (|_, o| o.shape[1] = -3, ErrorKind::Shape, "extent of -3"),
        (|_, o| o.shape = [i64::MAX, i64::MAX], ErrorKind::Shape, ""),
        (|m, _| m.tensor.shape = std::ptr::null_mut(), ErrorKind::Shape, "missing"),
    ];
    for (change, kind, why) in mistakes {
        let error = foreign(change).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(why), "{error:?}");
        assert_eq!(RELEASED.swap(0, Ordering::SeqCst), 1, "{why}");
    }
    // SAFETY: null is allowed.
    assert!(unsafe { Capsule::from_raw(std::ptr::null_mut()) }.is_err());
}
