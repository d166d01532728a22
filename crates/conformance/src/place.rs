use everloom_core::Store;

/// Where a behaviour runs: a store, and whatever must live as long as it.
///
/// Every store is a place; one that keeps its rows in a file wraps the file's directory and
/// itself, and says how to reopen.
pub trait Place {
    /// The store.
    fn store(&mut self) -> &mut dyn Store;

    /// Closes the store and opens it again, as a restart does. A store that lives in memory only
    /// stays as it is.
    fn reopen(&mut self) {}
}

impl<S: Store> Place for S {
    fn store(&mut self) -> &mut dyn Store {
        self
    }
}
