//! Checkpoints: named tensors and a few words about them, in safetensors files.
//!
//! The format is a little-endian u64 length, that many bytes of JSON (for each tensor dtype, shape and place), and the
//! tensors' bytes: see <https://github.com/huggingface/safetensors#format>.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use ubique_core::{DType, Device, Error, HostTensor, Result, Tensor};

use crate::atomic_file;
use crate::module::StateDict;

/// Named tensors, and names with text.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// The tensors.
    pub tensors: StateDict,
    /// What else there is to say.
    pub metadata: BTreeMap<String, String>,
}

/// Our dtypes beside those of the format.
const DTYPES: [(DType, Dtype); 15] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I16, Dtype::I16),
    (DType::I8, Dtype::I8),
    (DType::U64, Dtype::U64),
    (DType::U32, Dtype::U32),
    (DType::U16, Dtype::U16),
    (DType::U8, Dtype::U8),
    (DType::Bool, Dtype::BOOL),
    (DType::F8E4M3, Dtype::F8_E4M3),
    (DType::F8E5M2, Dtype::F8_E5M2),
];

/// The name under which the format keeps the metadata.
const METADATA: &str = "__metadata__";

impl Checkpoint {
    /// A checkpoint of tensors alone.
    pub fn new(tensors: StateDict) -> Checkpoint {
        Checkpoint { tensors, metadata: BTreeMap::new() }
    }

    /// Adds another checkpoint, with `prefix` put before all its names: `"optimizer."`, say.
    #[must_use]
    pub fn with(mut self, prefix: &str, other: Checkpoint) -> Checkpoint {
        self.tensors.extend(other.tensors.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        self.metadata.extend(other.metadata.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        self
    }

    /// The part whose names begin with `prefix`, without it: what [`Checkpoint::with`] added.
    #[must_use]
    pub fn part(&self, prefix: &str) -> Checkpoint {
        fn part<T: Clone>(map: &BTreeMap<String, T>, prefix: &str) -> BTreeMap<String, T> {
            map.iter()
                .filter_map(|(name, value)| Some((name.strip_prefix(prefix)?.to_owned(), value.clone())))
                .collect()
        }
        Checkpoint { tensors: part(&self.tensors, prefix), metadata: part(&self.metadata, prefix) }
    }

    /// Writes a safetensors file, whole or not at all. Tensors come off their devices one after the other. The same
    /// content gives the same bytes.
    ///
    /// ```
    /// # use ubique_core::{DType, Device};
    /// # use ubique_nn::{Checkpoint, Linear, Module};
    /// # use ubique_flex as _;
    /// # let device = Device::new("flex")?;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("model.safetensors");
    /// let model = Linear::new(3, 2, &device)?;
    /// Checkpoint::new(model.state_dict()?).save(&path)?;
    /// model.load_state_dict(&Checkpoint::load(&path, &device)?.tensors, true)?;
    /// # Ok::<(), ubique_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where a device or the file system fails; the file is as before then.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        little_endian()?;
        let order = self.file_order();
        let header = self.header(&order).map_err(|e| e.context(path.as_ref().display()))?;
        atomic_file::write(path.as_ref(), |out| {
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            order.into_iter().try_for_each(|(name, tensor)| write_tensor(name, tensor, out))
        })
    }

    /// The tensors in the file's order: wide elements first, so that all are aligned.
    fn file_order(&self) -> Vec<(&str, &Tensor)> {
        let mut order: Vec<_> = self.tensors.iter().map(|(name, value)| (name.as_str(), value)).collect();
        order.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
        order
    }

    /// The JSON of the file.
    fn header(&self, order: &[(&str, &Tensor)]) -> Result<Vec<u8>> {
        let mut entries = Map::new();
        if !self.metadata.is_empty() {
            entries.insert(METADATA.to_owned(), json!(self.metadata));
        }
        let mut end = 0;
        for (name, tensor) in order {
            let start = end;
            end += tensor.shape().bytes(tensor.dtype())?;
            let dtype = known(tensor.dtype())?.to_string();
            let entry = json!({ "dtype": dtype, "shape": tensor.shape()[..], "data_offsets": [start, end] });
            if *name == METADATA || entries.insert((*name).to_owned(), entry).is_some() {
                return Err(Error::value(format!("a tensor cannot be called {name:?} in a safetensors file")));
            }
        }
        let mut header = Value::Object(entries).to_string().into_bytes();
        // Padded so that the tensors begin aligned.
        header.resize(header.len().next_multiple_of(8), b' ');
        Ok(header)
    }

    /// Reads a safetensors file onto a device. The bytes are checked before anything is believed.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged or cut short, or has a dtype that there is not here; the message names
    /// the file and the reason.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Checkpoint> {
        let path = path.as_ref();
        little_endian()?;
        let bytes = std::fs::read(path).map_err(|e| Error::io(format_args!("{}: cannot read", path.display()), e))?;
        Checkpoint::parse(bytes, device).map_err(|e| e.context(path.display()))
    }

    fn parse(bytes: Vec<u8>, device: &Device) -> Result<Checkpoint> {
        let damaged = |e: &dyn std::fmt::Display| Error::format(format!("not a whole safetensors file: {e}"));
        let bytes = Arc::new(bytes);
        let (length, header) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(&e))?;
        let begin = size_of::<u64>() + length;
        let mut checkpoint = Checkpoint::default();
        checkpoint.metadata.extend(header.metadata().clone().unwrap_or_default());
        for (name, info) in header.tensors() {
            let known = DTYPES.into_iter().find(|(_, theirs)| *theirs == info.dtype);
            let (dtype, _) = known.ok_or_else(|| {
                Error::unsupported(format!("tensor {name} is {}, a dtype that there is not here", info.dtype))
            })?;
            let (start, end) = info.data_offsets;
            let part = Part { file: bytes.clone(), range: begin + start..begin + end };
            let host = HostTensor::from_bytes(part, dtype, &info.shape[..]);
            let tensor = host.and_then(|host| Tensor::from_host(host, device));
            checkpoint.tensors.insert(name.clone(), tensor.map_err(|e| e.context(format!("tensor {name}")))?);
        }
        Ok(checkpoint)
    }
}

/// A tensor's bytes within a file.
struct Part {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.file.get(self.range.clone()).unwrap_or_default()
    }
}

fn write_tensor(name: &str, tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let host = tensor.to_host().map_err(|e| io::Error::other(e.context(format!("tensor {name}"))))?;
    out.write_all(host.bytes())
}

fn known(dtype: DType) -> Result<Dtype> {
    let found = DTYPES.into_iter().find(|(ours, _)| *ours == dtype);
    found.map(|(_, theirs)| theirs).ok_or_else(|| Error::unsupported(format!("safetensors files cannot hold {dtype}")))
}

/// Tensors go to and from files as they are in memory.
fn little_endian() -> Result<()> {
    match cfg!(target_endian = "little") {
        true => Ok(()),
        false => Err(Error::unsupported("safetensors files are little-endian, and this machine is not")),
    }
}
