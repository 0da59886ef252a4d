//! The recorded calls, as `tools/recorded.py` writes them.

use std::path::Path;

use safetensors::SafeTensors;
use serde_json::{Map, Value};
use ubique_core::{DType, Device, HostTensor, Tensor};

/// A recorded tensor: row-major bytes.
#[derive(Clone)]
pub struct Stored {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Stored {
    pub fn to_host(&self) -> ubique_core::Result<HostTensor> {
        HostTensor::from_bytes(self.bytes.clone(), self.dtype, self.shape.clone())
    }

    pub fn tensor(&self, device: &Device) -> ubique_core::Result<Tensor> {
        Tensor::from_host(self.to_host()?, device)
    }
}

/// An argument of a call.
#[derive(Clone)]
pub enum Arg<T> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    DType(DType),
    Tensor(T),
    List(Vec<Arg<T>>),
}

impl Arg<Stored> {
    fn describe(&self) -> String {
        match self {
            Arg::None => "None".into(),
            Arg::Bool(v) => v.to_string(),
            Arg::Int(v) => v.to_string(),
            Arg::Float(v) => v.to_string(),
            Arg::Text(v) => v.clone(),
            Arg::DType(v) => v.to_string(),
            Arg::Tensor(stored) => format!("{}{:?}", stored.dtype, stored.shape),
            Arg::List(list) => format!("[{}]", list.iter().map(Arg::describe).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The same argument with its tensors as `f` makes them, in order.
    pub fn map<T, E>(&self, f: &mut impl FnMut(&Stored) -> Result<T, E>) -> Result<Arg<T>, E> {
        Ok(match self {
            Arg::None => Arg::None,
            Arg::Bool(v) => Arg::Bool(*v),
            Arg::Int(v) => Arg::Int(*v),
            Arg::Float(v) => Arg::Float(*v),
            Arg::Text(v) => Arg::Text(v.clone()),
            Arg::DType(v) => Arg::DType(*v),
            Arg::Tensor(stored) => Arg::Tensor(f(stored)?),
            Arg::List(list) => Arg::List(list.iter().map(|arg| arg.map(f)).collect::<Result<_, E>>()?),
        })
    }
}

/// A call with what the other system made of it.
pub struct Record {
    pub op: String,
    /// What the call is called there; empty where it has no name of its own.
    pub name: String,
    /// The dtype that the operands share, or that of the first.
    pub dtype: DType,
    pub positional: Vec<Arg<Stored>>,
    pub named: Vec<(String, Arg<Stored>)>,
    /// None for a result that was not asked for.
    pub results: Vec<Option<Stored>>,
    /// A gradient, or none, for each tensor among the arguments; empty where the op has no gradient.
    pub grads: Vec<Option<Stored>>,
}

impl Record {
    /// The call's name and arguments, for messages.
    pub fn describe(&self) -> String {
        let positional = self.positional.iter().map(Arg::describe);
        let named = self.named.iter().map(|(name, arg)| format!("{name}={}", arg.describe()));
        format!("{}({})", self.name, positional.chain(named).collect::<Vec<_>>().join(", "))
    }
}

/// All recorded calls.
pub fn load(folder: &Path) -> Vec<Record> {
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the recorded calls are in the repository");
    let bytes = read("values.safetensors");
    let values = SafeTensors::deserialize(&bytes).expect("values.safetensors is a safetensors file");
    let calls: Vec<Value> = serde_json::from_slice(&read("calls.json")).expect("calls.json is JSON");
    calls.iter().map(|call| record(call, &values).unwrap_or_else(|| panic!("not a call: {call}"))).collect()
}

fn record(call: &Value, values: &SafeTensors<'_>) -> Option<Record> {
    let list = |key: &str| call.get(key)?.as_array();
    let optional = |v: &Value| if v.is_null() { Some(None) } else { stored(v, values).map(Some) };
    Some(Record {
        op: call.get("op")?.as_str()?.to_owned(),
        name: call.get("name").map_or(Some(""), Value::as_str)?.to_owned(),
        dtype: dtype(call.get("dtype")?.as_str()?)?,
        positional: list("args")?.iter().map(|v| arg(v, values)).collect::<Option<_>>()?,
        named: call
            .get("kwargs")?
            .as_object()?
            .iter()
            .map(|(k, v)| Some((k.clone(), arg(v, values)?)))
            .collect::<Option<_>>()?,
        results: list("results")?.iter().map(optional).collect::<Option<_>>()?,
        grads: list("grads").into_iter().flatten().map(optional).collect::<Option<_>>()?,
    })
}

/// By its name here, or by PyTorch's where that is longer.
fn dtype(name: &str) -> Option<DType> {
    match name {
        "float64" => Some(DType::F64),
        "float32" => Some(DType::F32),
        "int64" => Some(DType::I64),
        name => name.parse().ok(),
    }
}

fn arg(value: &Value, values: &SafeTensors<'_>) -> Option<Arg<Stored>> {
    Some(match value {
        Value::Null => Arg::None,
        Value::Bool(v) => Arg::Bool(*v),
        Value::Number(n) => n.as_i64().map_or_else(|| n.as_f64().map(Arg::Float), |i| Some(Arg::Int(i)))?,
        Value::String(v) => Arg::Text(v.clone()),
        Value::Array(list) => Arg::List(list.iter().map(|v| arg(v, values)).collect::<Option<_>>()?),
        Value::Object(object) => return special(object, value, values),
    })
}

/// What JSON has no word for.
fn special(object: &Map<String, Value>, value: &Value, values: &SafeTensors<'_>) -> Option<Arg<Stored>> {
    if let Some(name) = object.get("dtype") {
        return dtype(name.as_str()?).map(Arg::DType);
    }
    if let Some(text) = object.get("float") {
        return text.as_str()?.parse().ok().map(Arg::Float);
    }
    stored(value, values).map(Arg::Tensor)
}

/// A tensor by its dtype, shape and offset in the flat tensor of that dtype.
fn stored(value: &Value, values: &SafeTensors<'_>) -> Option<Stored> {
    let [name, shape, offset] = value.get("tensor")?.as_array()?.as_slice() else { return None };
    let dtype = dtype(name.as_str()?)?;
    let shape: Vec<usize> = shape.as_array()?.iter().map(|v| Some(v.as_u64()? as usize)).collect::<Option<_>>()?;
    let start = offset.as_u64()? as usize * dtype.size();
    let end = start + shape.iter().product::<usize>() * dtype.size();
    let bytes = values.tensor(name.as_str()?).ok()?.data().get(start..end)?.to_vec();
    Some(Stored { dtype, shape, bytes })
}
