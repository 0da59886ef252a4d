//! The grammar of device names, the same in programs, on the command line, in `UBIQUE_DEVICE` and in the config file.
//!
//! A list of choices in order of preference, separated by commas. A choice is `auto`, `cpu`, `gpu` or a backend's name, then
//! optionally `:` and which of its devices, a number or an address, then optionally `?key=value&…` with the keys `threads`
//! and `memory` (bytes): `cuda:1`, `flex?threads=2`, `remote:wss://host:4000/2`, `cuda,vulkan,cpu`.

use std::fmt;
use std::str::FromStr;

use crate::backend::OpenOptions;
use crate::error::{Error, Result};

/// A parsed device name: choices, the best first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Selection(pub Vec<Choice>);

/// One device, or one way to find one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// `auto`, `cpu`, `gpu` or a backend's name.
    pub backend: String,
    /// Which of the candidates.
    pub place: Place,
    /// How to open it.
    pub options: OpenOptions,
}

/// Which of a backend's devices.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// By its number; 0 where a name says none.
    Index(usize),
    /// By an address that the backend understands.
    Address(String),
}

impl FromStr for Selection {
    type Err = Error;
    fn from_str(text: &str) -> Result<Selection> {
        let choices = text.split(',').map(str::parse).collect::<Result<Vec<Choice>>>();
        choices.map(Selection).map_err(|e| e.context(format!("device name {text:?}")))
    }
}

impl FromStr for Choice {
    type Err = Error;
    fn from_str(text: &str) -> Result<Choice> {
        let (place, options) = text.trim().split_once('?').map_or((text.trim(), None), |(p, o)| (p, Some(o)));
        let (backend, place) = match place.split_once(':') {
            None => (place, Place::Index(0)),
            Some((backend, address)) if address.contains("://") => (backend, Place::Address(address.to_owned())),
            Some((backend, index)) => match index.parse() {
                Ok(index) => (backend, Place::Index(index)),
                Err(_) => return Err(Error::device(format!("{index:?} is neither a device number nor an address"))),
            },
        };
        if backend.is_empty() {
            return Err(Error::device("a choice is empty; write auto, cpu, gpu or a backend's name"));
        }
        let mut parsed = OpenOptions::default();
        options.into_iter().flat_map(|o| o.split('&')).try_for_each(|pair| set(&mut parsed, pair))?;
        Ok(Choice { backend: backend.to_ascii_lowercase(), place, options: parsed })
    }
}

fn set(options: &mut OpenOptions, pair: &str) -> Result<()> {
    let number = |value: &str| match value.parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Error::device(format!("{value:?} is not a positive number"))),
    };
    match pair.split_once('=') {
        Some(("threads", value)) => options.threads = Some(number(value)? as usize),
        Some(("memory", value)) => options.memory_limit = Some(number(value)?),
        _ => {
            return Err(Error::device(format!("unknown option {pair:?}; known are threads=N and memory=BYTES")));
        }
    }
    Ok(())
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, choice) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{choice}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Index(index) => write!(f, "{}:{index}", self.backend)?,
            Place::Address(address) => write!(f, "{}:{address}", self.backend)?,
        }
        let options = [("threads", self.options.threads.map(|t| t as u64)), ("memory", self.options.memory_limit)];
        let set = options.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        let set = set.collect::<Vec<_>>().join("&");
        if set.is_empty() { Ok(()) } else { write!(f, "?{set}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        let s: Selection = "flex:1?threads=2&memory=1000".parse().unwrap();
        let choice = &s.0[0];
        assert_eq!((choice.backend.as_str(), &choice.place), ("flex", &Place::Index(1)));
        assert_eq!((choice.options.threads, choice.options.memory_limit), (Some(2), Some(1000)));
        for (text, printed) in [
            ("flex:1?threads=2&memory=1000", "flex:1?threads=2&memory=1000"),
            ("auto", "auto:0"),
            (" CUDA , vulkan:1,cpu?threads=3", "cuda:0,vulkan:1,cpu:0?threads=3"),
            ("remote:wss://host:4000/2?memory=9,cpu", "remote:wss://host:4000/2?memory=9,cpu:0"),
        ] {
            let parsed: Selection = text.parse().unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(printed.parse::<Selection>().unwrap(), parsed);
        }
    }

    #[test]
    fn names_that_do_not_parse_say_why() {
        for (bad, why) in [
            ("flex:x", "number"),
            ("flex:-1", "number"),
            ("flex?threads", "threads=N"),
            ("flex?threads=0", "positive"),
            ("flex?speed=9", "speed"),
            ("", "empty"),
            ("cuda,,cpu", "empty"),
            (":0", "empty"),
        ] {
            let error = bad.parse::<Selection>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
