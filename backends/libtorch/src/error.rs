//! LibTorch's exceptions as errors.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};

use tch::TchError;
use ubique_core::Error;
use ubique_core::error::panic_message;

/// What went wrong in a kernel: in LibTorch, or before it was called.
#[derive(Debug)]
pub enum Failure {
    Torch(TchError),
    Checked(Error),
}

impl From<TchError> for Failure {
    fn from(error: TchError) -> Failure {
        Failure::Torch(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Checked(error)
    }
}

impl From<Failure> for Error {
    #[cold]
    fn from(failure: Failure) -> Error {
        let error = match failure {
            Failure::Checked(error) => return error,
            Failure::Torch(error) => error,
        };
        let said = match error {
            TchError::Torch(said) => said,
            other => other.to_string(),
        };
        // The first line says what happened; the others are a trace of LibTorch's own calls.
        let what = said.lines().next().unwrap_or_default().to_owned();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if says(&["out of memory", "can't allocate memory", "not enough memory"]) {
            Error::out_of_memory(what)
        } else if says(&["out of bounds", "out of range"]) {
            Error::index(what)
        } else if says(&["not implemented for", "not currently implemented"]) {
            Error::unsupported(what)
        } else {
            Error::backend(what)
        }
    }
}

/// Runs a kernel. Where a call that takes a scalar fails, `tch` finds the exception while it drops the scalar, and panics:
/// that is an error like others.
#[inline(always)]
pub fn caught<R>(kernel: impl FnOnce() -> Made<R>) -> Made<R> {
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|panic| match thrown(&*panic) {
        Some(said) => Err(Failure::Torch(TchError::Torch(said))),
        None => resume_unwind(panic),
    })
}

/// Keeps such panics off standard error in this library, whose standard library is its own.
pub fn quiet() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thrown(info.payload()).is_none() {
            others(info);
        }
    }));
}

/// The first line of an exception that `tch` has panicked with.
#[cold]
fn thrown(panic: &(dyn Any + Send)) -> Option<String> {
    let (_, said) = panic_message(panic)?.split_once("Err` value: Torch(\"")?;
    let line = said.split("\\n").next().unwrap_or(said);
    Some(line.trim_end_matches("\")").replace("\\\"", "\"").replace("\\'", "'"))
}

/// What a kernel gives.
pub type Made<T = tch::Tensor> = Result<T, Failure>;

#[cfg(test)]
mod tests {
    use ubique_core::ErrorKind;

    use super::*;

    #[test]
    fn panics_with_an_exception_become_errors() {
        let fails = || Err::<tch::Tensor, _>(TchError::Torch("not \"enough\" memory\nframe".to_owned()));
        let made = caught(|| Ok(fails().unwrap()));
        let Err(Failure::Torch(TchError::Torch(said))) = made else { panic!("no exception") };
        assert_eq!(said, "not \"enough\" memory");
        let other = catch_unwind(|| caught(|| -> Made { panic!("another") }));
        assert_eq!(other.expect_err("it panics").downcast_ref(), Some(&"another"));
    }

    #[test]
    fn exceptions_become_errors_of_their_kind() {
        let kind = |text: &str| Error::from(Failure::from(TchError::Torch(text.to_owned()))).kind();
        assert_eq!(kind("DefaultCPUAllocator: can't allocate memory: you tried"), ErrorKind::OutOfMemory);
        assert_eq!(kind("index 5 is out of bounds for dimension 0 with size 3"), ErrorKind::Index);
        assert_eq!(kind("\"sort\" not implemented for 'ComplexFloat'"), ErrorKind::Unsupported);
        let other = Error::from(Failure::from(TchError::Torch("mat1 and mat2\nException raised from".to_owned())));
        assert_eq!(other.message(), "mat1 and mat2");
    }
}
