//! How the command speaks: results on standard output, everything else on standard error, and an exit code.
//!
//! With `--json` each result is one JSON object on a line of its own; else it is text for people. Progress and logs go
//! to standard error in both cases. Exit codes: 0 success, 1 failure (with one line on standard error), 2 wrong usage,
//! 130 interrupted.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, ContentArrangement};
use serde::Serialize;

use crate::signal::INTERRUPTED;

/// Where results go.
pub struct Output<W: Write = io::Stdout> {
    json: bool,
    out: W,
}

impl Output {
    /// Results on standard output: as JSON lines where `json` is true, else as text.
    pub fn stdout(json: bool) -> Output {
        Output { json, out: io::stdout() }
    }
}

impl<W: Write> Output<W> {
    /// Results on any writer.
    pub fn new(json: bool, out: W) -> Output<W> {
        Output { json, out }
    }

    /// Whether results are JSON lines.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one result: `record` as a JSON object on one line, or the `text` for people, which is only made if wanted.
    /// Floats that are not finite become `null`, as JSON has none.
    ///
    /// # Errors
    /// A record that is not a JSON object, or an output that cannot be written.
    pub fn result(&mut self, record: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        let mut line = if self.json { json_object(record)? } else { text() };
        if !line.ends_with('\n') {
            line.push('\n');
        }
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
        written.context("cannot write to the output")
    }
}

fn json_object(record: &impl Serialize) -> Result<String> {
    let line = serde_json::to_string(record).context("cannot write a result as JSON")?;
    ensure!(line.starts_with('{'), "a result must be a JSON object, not {line}");
    Ok(line)
}

/// How a command that did not fail came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did all that it was asked for.
    Done,
    /// The user stopped it, and it saved what it had.
    Interrupted,
}

/// Turns the result of a command into the exit code of the process, and says a failure's reason in one line on
/// standard error. An output that was closed early (as `| head` does) is nothing to complain about.
pub fn exit(result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            if !is_broken_pipe(&error) {
                // Nothing is left to tell a failure to, should standard error be closed too.
                let _ = writeln!(io::stderr(), "error: {}", one_line(&format!("{error:#}")));
            }
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// `text` on one line: line breaks and other control characters (a file name may hold any) become spaces, runs of them
/// one space.
pub fn one_line(text: &str) -> String {
    text.split(char::is_control).filter(|part| !part.trim().is_empty()).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A table for people: a header, rows, columns aligned by the width of their text.
///
/// ```
/// # use ubique_cli::output::Table;
/// let mut table = Table::new(&["device", "GB"]);
/// table.row(["flex", "16"]);
/// table.align_right(1);
/// assert_eq!(table.to_string(), "device  GB\nflex    16");
/// ```
pub struct Table(comfy_table::Table);

impl Table {
    /// A table with these column titles and no row.
    pub fn new(header: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header);
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        Table(table)
    }

    /// Adds a row; missing cells stay empty. Control characters do not reach the terminal.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.0.add_row(cells.into_iter().map(|cell| one_line(cell.as_ref())));
    }

    /// Aligns a column to the right, as numbers are; a column that does not exist is left alone.
    pub fn align_right(&mut self, column: usize) {
        if let Some(column) = self.0.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.lines().map(|line| line.trim_end().to_owned()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Record {
        epoch: u32,
        loss: f64,
        note: &'static str,
    }

    const RECORD: Record = Record { epoch: 1, loss: f64::NAN, note: "two\nlines" };

    #[test]
    fn json_is_one_object_a_line() {
        let mut bytes = Vec::new();
        let mut output = Output::new(true, &mut bytes);
        output.result(&RECORD, || unreachable!("no text in JSON mode")).unwrap();
        output.result(&RECORD, String::new).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, [r#"{"epoch":1,"loss":null,"note":"two\nlines"}"#; 2]);
    }

    #[test]
    fn text_is_for_people() {
        let mut bytes = Vec::new();
        Output::new(false, &mut bytes).result(&RECORD, || "epoch 1".to_owned()).unwrap();
        assert_eq!(bytes, b"epoch 1\n");
    }

    #[test]
    fn a_record_must_be_an_object() {
        let error = Output::new(true, Vec::new()).result(&[1, 2], String::new).unwrap_err();
        assert!(error.to_string().contains("[1,2]"));
    }

    #[test]
    fn a_closed_pipe_is_an_error_that_is_not_told() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Output::new(true, Closed).result(&RECORD, String::new).unwrap_err();
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("another")));
    }

    #[test]
    fn reasons_stay_on_one_line() {
        assert_eq!(one_line("a\n  b\r\n\x1b[31mc\0"), "a b [31mc");
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn tables_align_wide_characters_and_short_rows() {
        let mut table = Table::new(&["name", "n"]);
        table.row(["数学", "1"]);
        table.row(["x\x1by", "100"]);
        table.row(["only"]);
        table.align_right(1);
        table.align_right(9);
        assert_eq!(table.to_string(), "name    n\n数学    1\nx y   100\nonly");
    }
}
