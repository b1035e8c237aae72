//! Law 2: a failed ADD leaves the machine as it found it.

/// What a half-done ADD would have to take back, newest first.
#[derive(Default)]
pub struct Undo<'a> {
    steps: Vec<Box<dyn FnOnce() + 'a>>,
}

impl std::fmt::Debug for Undo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Undo({} steps)", self.steps.len())
    }
}

impl<'a> Undo<'a> {
    /// Nothing to take back yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers how to take back the change just made.
    pub fn push(&mut self, step: impl FnOnce() + 'a) {
        self.steps.push(Box::new(step));
    }

    /// All is done: nothing will be taken back.
    pub fn commit(mut self) {
        self.steps.clear();
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        while let Some(step) = self.steps.pop() {
            step();
        }
    }
}
