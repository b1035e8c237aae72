//! On what it was measured.

use std::fs;

use serde::Serialize;

/// What matters of a machine, and how busy it was.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// As `uname -r` tells.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// How many threads it runs at once.
    pub threads: usize,
    /// How many others wanted to run, over the last minute, when the benchmark began.
    pub load: String,
}

impl Machine {
    /// This one; what it does not tell is empty.
    pub fn this() -> Machine {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let word = |file: &str| read(file).split_whitespace().next().map(str::to_owned);
        Machine {
            kernel: word("/proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: processor(&read("/proc/cpuinfo")),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            load: word("/proc/loadavg").unwrap_or_default(),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        format!(
            "kernel {}, {} x {}, load {}",
            self.kernel, self.threads, self.processor, self.load
        )
    }
}

/// The first that `/proc/cpuinfo` names.
fn processor(cpuinfo: &str) -> String {
    let named = |line: &str| {
        let (key, name) = line.split_once(':')?;
        (key.trim() == "model name").then(|| name.trim().to_owned())
    };
    let name = cpuinfo.lines().find_map(named);
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_a_name_or_an_architecture() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: Other\n";
        assert_eq!(processor(text), "Some CPU @ 2.00GHz");
        assert_eq!(processor("CPU part : 0xd0c\n"), std::env::consts::ARCH);
    }
}
