//! Text and codes of the C ABI, to and from Rust's.

use std::ffi::c_char;

use ubique_core::backend::Unavailable;
use ubique_core::{Error, ErrorKind, Result};

use crate::abi;

/// The kinds of errors by their codes; success is 0.
const KINDS: [ErrorKind; 12] = [
    ErrorKind::Shape,
    ErrorKind::DType,
    ErrorKind::Device,
    ErrorKind::Index,
    ErrorKind::Value,
    ErrorKind::Unsupported,
    ErrorKind::OutOfMemory,
    ErrorKind::Unavailable,
    ErrorKind::Backend,
    ErrorKind::Gradient,
    ErrorKind::Io,
    ErrorKind::Format,
];

/// The code of a kind. One that this version of the interface does not know is a failure of the backend.
fn code(kind: ErrorKind) -> abi::Code {
    let place = |kind| KINDS.iter().position(|&known| known == kind);
    place(kind).or_else(|| place(ErrorKind::Backend)).map_or(abi::Code::MAX, |place| place as abi::Code + 1)
}

/// The text up to the NUL, or all of it; what is not UTF-8 is replaced.
pub fn read(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes text and a NUL, cut at a character where it does not fit.
pub fn write(text: &str, target: &mut [c_char]) {
    let Some(room) = target.len().checked_sub(1) else { return };
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (place, byte) in target.iter_mut().zip(text.as_bytes()[..end].iter().chain([&0])) {
        *place = *byte as c_char;
    }
}

/// Room for an error that has not happened.
pub const NO_ERROR: abi::Error = abi::Error { message: [0; 768], hint: [0; 256] };

/// What a call gave: nothing, or the error that it wrote.
pub fn check(code: abi::Code, error: &abi::Error) -> Result<()> {
    if code == abi::OK {
        return Ok(());
    }
    let kind = usize::try_from(code - 1).ok().and_then(|i| KINDS.get(i)).copied().unwrap_or(ErrorKind::Backend);
    let Unavailable { why, hint } = reason(error);
    let why = if why.is_empty() { format!("the backend failed with code {code}") } else { why };
    Err(Error::new(kind, hint.map_or(why.clone(), |hint| format!("{why} ({hint})"))))
}

/// An error as the reason why there is no device.
pub fn reason(error: &abi::Error) -> Unavailable {
    Unavailable { why: read(&error.message), hint: Some(read(&error.hint)).filter(|hint| !hint.is_empty()) }
}

/// Writes an error for the other side.
pub fn report(result: Result<()>, target: &mut abi::Error) -> abi::Code {
    match result {
        Ok(()) => abi::OK,
        Err(error) => {
            write(&error.to_string(), &mut target.message);
            target.hint[0] = 0;
            code(error.kind())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_characters() {
        let mut room = [1; 5];
        write("añoñ", &mut room);
        assert_eq!(read(&room), "año");
        write("", &mut room);
        assert_eq!(read(&room), "");
        write("a", &mut []);
        assert_eq!(read(&[b'x' as c_char; 3]), "xxx");
    }

    #[test]
    fn errors_cross_with_kind_and_text() {
        let mut room = NO_ERROR;
        for kind in KINDS {
            let code = report(Err(Error::new(kind, "what happened")), &mut room);
            let error = check(code, &room).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, "what happened"));
        }
        assert!(check(abi::OK, &room).is_ok());
        let error = check(-7, &NO_ERROR).unwrap_err();
        assert!(error.to_string().contains("-7"), "{error}");
    }
}
