//! `ubique devices`: every backend and device, usable or not, and why not.

use anyhow::Result;
use serde::Serialize;
use ubique::backend::DeviceInfo;
use ubique::{Device, Dispatch};

use crate::output::{Outcome, Output, Table};

#[derive(Serialize)]
struct Row {
    device: String,
    usable: bool,
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
    for probed in Dispatch::probe() {
        match probed.devices {
            Err(why) => {
                let (device, why) = (probed.backend, Some(why.to_string()));
                rows.push(Row { device, usable: false, auto: false, id: None, why, info: None });
            }
            Ok(list) => {
                for (index, info) in list.into_iter().enumerate() {
                    let device = format!("{}:{index}", probed.backend);
                    let opened = Device::new(&device);
                    rows.push(Row {
                        auto: device == chosen,
                        usable: opened.is_ok(),
                        id: opened.as_ref().ok().map(|d| d.id().into()),
                        why: opened.err().map(|e| e.to_string()),
                        info: Some(info),
                        device,
                    });
                }
            }
        }
    }
    rows
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["device", "state", "what it is", "driver"]);
    for row in rows {
        let state = match (row.usable, row.auto) {
            (true, true) => "ready, auto",
            (true, false) => "ready",
            (false, _) => "unavailable",
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
