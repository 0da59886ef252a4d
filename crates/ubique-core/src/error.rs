//! The one error type: what went wrong, in which op, on which operands, on which device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::shape::TensorSpec;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong, for programs that react to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, ranks or axes do not fit, or a size overflows.
    Shape,
    /// An element type does not fit.
    DType,
    /// Operands live on different devices, or a device name is unknown.
    Device,
    /// An index is out of range.
    Index,
    /// An argument has a value that makes no sense here.
    Value,
    /// The operation exists, but not here.
    Unsupported,
    /// Memory could not be had.
    OutOfMemory,
    /// A device, driver or library is not there.
    Unavailable,
    /// The backend failed while working.
    Backend,
    /// A gradient is missing or cannot be computed.
    Gradient,
    /// A file or stream could not be read or written.
    Io,
    /// Data is damaged or not of the expected form.
    Format,
}

impl ErrorKind {
    /// The kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Shape => "shape",
            ErrorKind::DType => "dtype",
            ErrorKind::Device => "device",
            ErrorKind::Index => "index",
            ErrorKind::Value => "value",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Backend => "backend",
            ErrorKind::Gradient => "gradient",
            ErrorKind::Io => "I/O",
            ErrorKind::Format => "format",
        }
    }
}

/// An error with its context. Cheap to move: one pointer. Cloneable, because an asynchronous failure
/// may have to be reported once for every tensor that it spoilt.
#[derive(Clone)]
pub struct Error(Box<Detail>);

#[derive(Clone)]
struct Detail {
    kind: ErrorKind,
    message: String,
    op: Option<String>,
    operands: Vec<TensorSpec>,
    device: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// One constructor a kind: the message is the only thing that every error has.
macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Error {$(
            $(#[$doc])*
            #[cold]
            pub fn $name(message: impl Into<String>) -> Error { Error::new(ErrorKind::$kind, message) }
        )*}
    };
}

constructors! {
    /// Shapes do not fit.
    shape => Shape;
    /// Element types do not fit.
    dtype => DType;
    /// Devices do not fit, or a name is unknown.
    device => Device;
    /// An index is out of range.
    index => Index;
    /// An argument makes no sense.
    value => Value;
    /// Not available for this op, dtype or device.
    unsupported => Unsupported;
    /// Memory could not be had.
    out_of_memory => OutOfMemory;
    /// A device, driver or library is missing.
    unavailable => Unavailable;
    /// A backend failed while working.
    backend => Backend;
    /// A gradient is missing or undefined.
    gradient => Gradient;
    /// Damaged data.
    format => Format;
}

impl Error {
    /// An error of a kind, with what happened and what to do about it.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error(Box::new(Detail { kind, message, op: None, operands: Vec::new(), device: None, source: None }))
    }

    /// A failed file or stream operation; `what` names the path and what was tried.
    #[cold]
    pub fn io(what: impl fmt::Display, source: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{what}: {source}")).with_source(source)
    }

    /// Adds the op and its operands, unless an inner call has already said them.
    #[cold]
    pub fn with_op(mut self, op: impl Into<String>, operands: &[TensorSpec]) -> Error {
        if self.0.op.is_none() {
            self.0.op = Some(op.into());
            self.0.operands = operands.to_vec();
        }
        self
    }

    /// Adds the device, unless already known.
    #[cold]
    pub fn with_device(mut self, device: impl fmt::Display) -> Error {
        if self.0.device.is_none() {
            self.0.device = Some(device.to_string());
        }
        self
    }

    /// Puts the surrounding activity before the message: `"reading model.safetensors"`.
    #[cold]
    pub fn context(mut self, what: impl fmt::Display) -> Error {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Adds the error that caused this one, which the message says already.
    #[cold]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened, without op, operands and device.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The op that failed.
    pub fn op(&self) -> Option<&str> {
        self.0.op.as_deref()
    }

    /// Shapes and dtypes of that op's operands.
    pub fn operands(&self) -> &[TensorSpec] {
        &self.0.operands
    }

    /// The device it failed on.
    pub fn device_name(&self) -> Option<&str> {
        self.0.device.as_deref()
    }
}

/// What a caught panic said; `None` where that is no text.
pub fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = &self.0.op {
            write!(f, "{op}(")?;
            for (i, operand) in self.0.operands.iter().enumerate() {
                write!(f, "{}{operand}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str(")")?;
            if let Some(device) = &self.0.device {
                write!(f, " on {device}")?;
            }
            f.write_str(": ")?;
        } else if let Some(device) = &self.0.device {
            write!(f, "{device}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {self}", self.0.kind.name())
    }
}

impl std::error::Error for Error {
    /// What caused the cause: the cause itself stands in the message, and whoever prints a chain of errors would print
    /// it twice.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().and_then(|cause| cause.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::shape::Shape;

    #[test]
    fn panics_with_text_say_it() {
        let said = |f: fn()| std::panic::catch_unwind(f).map_err(|panic| panic_message(&*panic).map(str::to_owned));
        assert_eq!(said(|| panic!("at once")), Err(Some("at once".to_owned())));
        assert_eq!(said(|| panic!("at {}", 2)), Err(Some("at 2".to_owned())));
        assert_eq!(said(|| std::panic::panic_any(3)), Err(None));
    }

    #[test]
    fn says_op_operands_device_and_reason() {
        let spec = TensorSpec::new(Shape::from([2, 3]), DType::F32);
        let error = Error::shape("inner extents differ: 3 and 2")
            .with_op("matmul", &[spec.clone(), spec])
            .with_device("flex:0");
        assert_eq!(error.to_string(), "matmul(f32[2, 3], f32[2, 3]) on flex:0: inner extents differ: 3 and 2");
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }
}
