//! Instructions per call, counted by valgrind. The difference of two runs excludes the
//! setup.

use std::process::Command;

use crate::calls::ALL;

const FEW: u32 = 200;
const MANY: u32 = 1_200;

pub fn print() {
    println!("{:<18} {:>14}", "per call", "instructions");
    for name in ALL {
        println!("{name:<18} {:>14.0}", per_call(name));
    }
}

pub fn per_call(name: &str) -> f64 {
    let mut calls = MANY - FEW;
    if name.starts_with("batch") {
        calls /= 10;
    }
    (run(name, MANY) - run(name, FEW)) / f64::from(calls)
}

fn run(name: &str, count: u32) -> f64 {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("path of this program"))
        .args(["calls", name, &count.to_string()])
        .output()
        .expect("valgrind");
    let text = String::from_utf8_lossy(&out.stderr);
    let collected = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.unwrap_or_else(|| panic!("no instruction count in: {text}"));
    collected.trim().parse().expect("number")
}
