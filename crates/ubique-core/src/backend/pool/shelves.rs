//! Free blocks that all threads share, by size.

use super::raw::{Life, Raw};
use super::size;

/// The shared free lists of a pool, and how many blocks of each size the pool owns.
#[derive(Default)]
pub(super) struct Shelves {
    /// Sorted by capacity.
    shelves: Vec<Shelf>,
    pub cached_bytes: u64,
    /// Counts uses, to tell which shelf has been idle longest.
    clock: u64,
    pub persistent_blocks: u64,
    pub persistent_bytes: u64,
}

/// The blocks of one size.
pub(super) struct Shelf {
    pub capacity: usize,
    /// Blocks of this size that the system gave and has not got back, in use or not.
    pub owned: u64,
    pub free: Vec<Raw>,
    last_use: u64,
}

impl Shelves {
    /// Every size of which the pool owns blocks, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = &Shelf> {
        self.shelves.iter()
    }

    /// A free block that serves `capacity`.
    pub fn take(&mut self, capacity: usize) -> Option<Raw> {
        self.clock += 1;
        let first = self.shelves.partition_point(|shelf| shelf.capacity < capacity);
        let fitting = self.shelves.iter_mut().skip(first);
        let mut fitting = fitting.take_while(|shelf| shelf.capacity <= size::largest_fit(capacity));
        let shelf = fitting.find(|shelf| !shelf.free.is_empty())?;
        shelf.last_use = self.clock;
        let raw = shelf.free.pop()?;
        self.cached_bytes -= raw.capacity as u64;
        Some(raw)
    }

    /// Keeps a free block that is owned already. Fails, without keeping it, if there is no memory for the list.
    pub fn put(&mut self, raw: Raw) -> Result<(), Raw> {
        self.clock += 1;
        let clock = self.clock;
        let Some(shelf) = self.shelf(raw.capacity) else { return Err(raw) };
        shelf.free.try_reserve(1).map_err(|_| raw)?;
        shelf.free.push(raw);
        shelf.last_use = clock;
        self.cached_bytes += raw.capacity as u64;
        Ok(())
    }

    /// Notes that the system gave this block.
    pub fn own(&mut self, raw: Raw) {
        if raw.life == Life::Persistent {
            self.persistent_blocks += 1;
            self.persistent_bytes += raw.capacity as u64;
        } else if let Some(shelf) = self.shelf(raw.capacity) {
            shelf.owned += 1;
        }
    }

    /// Notes that the system gets this block back.
    pub fn disown(&mut self, raw: Raw) {
        if raw.life == Life::Persistent {
            self.persistent_blocks -= 1;
            self.persistent_bytes -= raw.capacity as u64;
        } else if let Ok(index) = self.shelves.binary_search_by_key(&raw.capacity, |shelf| shelf.capacity) {
            let shelf = &mut self.shelves[index];
            shelf.owned = shelf.owned.saturating_sub(1);
            if shelf.owned == 0 && shelf.free.is_empty() {
                self.shelves.remove(index);
            }
        }
    }

    /// Takes out a block of the shelf that has been idle longest, as long as more than `budget` bytes are cached.
    pub fn surplus(&mut self, budget: u64) -> Option<Raw> {
        if self.cached_bytes <= budget {
            return None;
        }
        let stocked = self.shelves.iter_mut().filter(|shelf| !shelf.free.is_empty());
        let raw = stocked.min_by_key(|shelf| shelf.last_use)?.free.pop()?;
        self.cached_bytes -= raw.capacity as u64;
        self.disown(raw);
        Some(raw)
    }

    /// The shelf of this size, made if need be; `None` if there is no memory to make it.
    fn shelf(&mut self, capacity: usize) -> Option<&mut Shelf> {
        let index = match self.shelves.binary_search_by_key(&capacity, |shelf| shelf.capacity) {
            Ok(index) => index,
            Err(index) => {
                self.shelves.try_reserve(1).ok()?;
                self.shelves.insert(index, Shelf { capacity, owned: 0, free: Vec::new(), last_use: self.clock });
                index
            }
        };
        self.shelves.get_mut(index)
    }
}
