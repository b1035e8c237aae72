//! Which files of a folder are ours.

use std::fmt::{self, Write as _};

use crate::found::Sum;

/// The list's name in its folder.
pub const NAME: &str = ".cni-lite-installed";

/// Files by their checksums, as `sha256sum` prints them. One that was just being exchanged when
/// something failed may be in it twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List(Vec<(Sum, String)>);

impl List {
    /// Reads it, whole or not at all: nobody can tell what a line has meant that is none.
    ///
    /// # Errors
    /// What is wrong with it, as words behind its name.
    pub fn parse(text: &str) -> Result<List, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        let line = |(index, line): (usize, &str)| {
            read(line).ok_or_else(|| format!("its line {} is no checksum and a name", index + 1))
        };
        let files = text
            .lines()
            .enumerate()
            .map(line)
            .collect::<Result<_, _>>()?;
        match text.ends_with('\n') {
            true => Ok(List(files)),
            false => Err("its last line has no end".to_owned()),
        }
    }

    /// Whether it has the file with that content.
    pub fn has(&self, name: &str, sum: Sum) -> bool {
        self.0.iter().any(|(own, of)| *own == sum && of == name)
    }

    /// Whether it has a file of that name.
    pub fn names(&self, name: &str) -> bool {
        self.0.iter().any(|(_, of)| of == name)
    }

    /// The names, each once.
    pub fn all_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in &self.0 {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// Takes a file in, beside what it has of that name.
    pub fn add(&mut self, name: &str, sum: Sum) {
        if !self.has(name, sum) {
            self.0.push((sum, name.to_owned()));
        }
    }

    /// Forgets a name.
    pub fn forget(&mut self, name: &str) {
        self.0.retain(|(_, of)| of != name);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn read(line: &str) -> Option<(Sum, String)> {
    let (sum, name) = line.split_once("  ")?;
    let is_plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    is_plain.then_some((Sum::parse(sum)?, name.to_owned()))
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter();
        lines.clone().try_for_each(|(sum, name)| {
            write!(f, "{sum}  {name}")?;
            f.write_char('\n')
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let (one, other) = (Sum::of(b"1"), Sum::of(b"2"));
        let mut list = List::default();
        assert!(list.is_empty());
        for (name, sum) in [("a", one), ("b b", one), ("a", other), ("a", one)] {
            list.add(name, sum);
        }
        let text = list.to_string();
        assert_eq!(text, format!("{one}  a\n{one}  b b\n{other}  a\n"));
        assert_eq!(List::parse(&text), Ok(list.clone()));
        assert_eq!(list.all_names(), ["a", "b b"]);
        assert!(list.has("a", other) && !list.has("b b", other) && list.names("b b"));
        list.forget("a");
        assert_eq!(list.all_names(), ["b b"]);
    }

    #[test]
    fn a_list_that_is_none_says_why() {
        let line = format!("{}  a\n", Sum::of(b"1"));
        let sum = &line[..64];
        for bad in [
            "\n",
            "x\n",
            "x  a\n",
            &format!("{sum}  \n"),
            &format!("{sum} a\n"),
            &format!("{sum}  ..\n"),
            &format!("{sum}  ../a\n"),
            &format!("{sum}  a\0\n"),
            &sum[1..],
            sum,
        ] {
            let said = Err("its line 2 is no checksum and a name".to_owned());
            assert_eq!(List::parse(&format!("{line}{bad}{line}")), said, "{bad}");
        }
        assert_eq!(List::parse(""), Err("it is empty".to_owned()));
        let torn = Err("its last line has no end".to_owned());
        assert_eq!(List::parse(line.trim_end()), torn);
    }
}
