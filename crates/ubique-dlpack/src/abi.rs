//! The structs of `dlpack.h`, version 1.1.

use std::ffi::c_void;

use ubique_core::DType;

/// The major version of the format.
pub const MAJOR: u32 = 1;
/// The minor version whose dtypes are used.
pub const MINOR: u32 = 1;

/// `kDLCPU`.
pub const CPU: i32 = 1;
/// Kinds of memory that the host can read: its own, and pinned for CUDA and ROCm.
pub const HOST_MEMORY: [i32; 3] = [CPU, 3, 11];

/// The consumer must not write.
pub const READ_ONLY: u64 = 1;
/// The producer has made a copy.
pub const IS_COPIED: u64 = 2;

/// The dtypes that both sides have: type code, bits, and ours.
pub const DTYPES: [(u8, u8, DType); 15] = [
    (2, 64, DType::F64),
    (2, 32, DType::F32),
    (2, 16, DType::F16),
    (4, 16, DType::BF16),
    (0, 64, DType::I64),
    (0, 32, DType::I32),
    (0, 16, DType::I16),
    (0, 8, DType::I8),
    (1, 64, DType::U64),
    (1, 32, DType::U32),
    (1, 16, DType::U16),
    (1, 8, DType::U8),
    (6, 8, DType::Bool),
    (10, 8, DType::F8E4M3),
    (12, 8, DType::F8E5M2),
];

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Changes with the layout of the structs.
    pub major: u32,
    /// Changes with what they can hold.
    pub minor: u32,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// What kind of memory.
    pub device_type: i32,
    /// Which of such devices.
    pub device_id: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataType {
    /// Integer, float, …
    pub code: u8,
    /// Width of a lane.
    pub bits: u8,
    /// More than 1 for vector types.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: Device,
    /// The number of axes.
    pub ndim: i32,
    /// The element type.
    pub dtype: DataType,
    /// The extents.
    pub shape: *mut i64,
    /// Elements to step along each axis; null for row-major.
    pub strides: *mut i64,
    /// Where in `data` the first element lies.
    pub byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// Of the structs.
    pub version: Version,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Releases everything, this struct included.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
    /// A sum of [`READ_ONLY`] and [`IS_COPIED`].
    pub flags: u64,
    /// The tensor.
    pub tensor: Tensor,
}
