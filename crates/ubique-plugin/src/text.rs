//! Text and codes of the C ABI, to and from Rust's.

use std::cell::Cell;
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

/// Calls a function of the other side with room for its error, and gives that.
#[inline(always)]
pub fn checked(call: impl FnOnce(&mut abi::Error) -> abi::Code) -> Result<()> {
    // Kept, because clearing it takes longer than some calls. Taken out meanwhile, for calls that lead to others.
    thread_local!(static ROOM: Cell<Option<Box<abi::Error>>> = const { Cell::new(None) });
    let mut room = ROOM.try_with(Cell::take).ok().flatten().unwrap_or_else(|| Box::new(NO_ERROR));
    (room.message[0], room.hint[0]) = (0, 0);
    let code = call(&mut room);
    let result = if code == abi::OK { Ok(()) } else { Err(failure(code, &room)) };
    // Where the thread is ending, the room is not kept.
    let _ = ROOM.try_with(|kept| kept.set(Some(room)));
    result
}

/// The error that a call wrote.
#[cold]
fn failure(code: abi::Code, error: &abi::Error) -> Error {
    let kind = usize::try_from(code)
        .ok()
        .and_then(|code| KINDS.get(code.checked_sub(1)?))
        .copied()
        .unwrap_or(ErrorKind::Backend);
    let Unavailable { why, hint } = reason(error);
    let why = if why.is_empty() { format!("the backend failed with code {code}") } else { why };
    Error::new(kind, hint.map_or(why.clone(), |hint| format!("{why} ({hint})")))
}

/// An error as the reason why there is no device.
pub fn reason(error: &abi::Error) -> Unavailable {
    Unavailable { why: read(&error.message), hint: Some(read(&error.hint)).filter(|hint| !hint.is_empty()) }
}

/// Writes an error for the other side.
#[cold]
pub fn report(error: &Error, target: &mut abi::Error) -> abi::Code {
    write(&error.to_string(), &mut target.message);
    target.hint[0] = 0;
    code(error.kind())
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
        for kind in KINDS {
            let error = checked(|room| report(&Error::new(kind, "what happened"), room)).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, "what happened"));
        }
        assert!(checked(|_| abi::OK).is_ok());
        // What another call has written is not said again.
        let error = checked(|_| -7).unwrap_err();
        assert!(error.message().contains("-7") && !error.message().contains("happened"), "{error}");
        assert_eq!(checked(|_| abi::Code::MIN).unwrap_err().kind(), ErrorKind::Backend);
        let inner = checked(|_| checked(|room| report(&Error::value("inner"), room)).map_or(9, |()| abi::OK));
        assert!(!inner.unwrap_err().message().contains("inner"));
    }
}
