//! `ubique devices`: every backend and device, usable or not, and why not.

use anyhow::Result;
use serde::Serialize;
use ubique::backend::DeviceInfo;
use ubique::dispatch::Probed;
use ubique::dispatch::State::{Disabled, Ready, Unavailable};
use ubique::{Device, Dispatch};

use crate::output::{Outcome, Output, Table};

/// Whether a device can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ready,
    Unavailable,
    Disabled,
}

#[derive(Serialize)]
struct Row {
    device: String,
    state: State,
    /// Whether `auto` opens this device.
    auto: bool,
    id: Option<u32>,
    why: Option<String>,
    info: Option<DeviceInfo>,
}

#[derive(Serialize)]
struct Record {
    devices: Vec<Row>,
}

/// Lists the devices.
pub fn run(output: &mut Output) -> Result<Outcome> {
    let auto = Device::auto();
    let chosen = auto.as_ref().map(|d| d.name().to_owned()).unwrap_or_default();
    let devices = rows(&chosen);
    if let Err(error) = &auto {
        eprintln!("auto gives no device: {error}");
    }
    let record = Record { devices };
    output.result(&record, || table(&record.devices).to_string())?;
    Ok(Outcome::Done)
}

fn rows(chosen: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for Probed { backend, state } in Dispatch::probe() {
        let without =
            |state, why| Row { device: backend.clone(), state, auto: false, id: None, why: Some(why), info: None };
        match state {
            Ready(list) => {
                let row = |(index, info)| row(format!("{backend}:{index}"), info, chosen);
                rows.extend(list.into_iter().enumerate().map(row));
            }
            Unavailable(why) => rows.push(without(State::Unavailable, why.to_string())),
            Disabled(why) => rows.push(without(State::Disabled, why)),
        }
    }
    rows
}

fn row(device: String, info: DeviceInfo, chosen: &str) -> Row {
    let opened = match &info.unavailable {
        Some(why) => Err(why.to_string()),
        None => Device::new(&device).map_err(|error| error.message().to_owned()),
    };
    Row {
        auto: device == chosen,
        state: if opened.is_ok() { State::Ready } else { State::Unavailable },
        id: opened.as_ref().ok().map(|opened| opened.id().into()),
        why: opened.err(),
        info: Some(info),
        device,
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["device", "state", "what it is", "driver"]);
    for row in rows {
        let state = match (row.state, row.auto) {
            (State::Ready, true) => "ready, auto",
            (State::Ready, false) => "ready",
            (State::Unavailable, _) => "unavailable",
            (State::Disabled, _) => "disabled",
        };
        let (what, driver) = match (&row.why, &row.info) {
            (Some(why), _) => (why.clone(), String::new()),
            (None, Some(info)) => (info.name.clone(), info.driver.clone()),
            (None, None) => Default::default(),
        };
        table.row([row.device.clone(), state.to_owned(), what, driver]);
    }
    table
}
