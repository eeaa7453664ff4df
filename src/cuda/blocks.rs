//! The blocks of a device's memory: who uses each, by number and by address.

use std::collections::BTreeMap;

use reflex_runtime::device::Stream;

/// The user of free blocks, and of those that no stream uses.
pub(crate) const NONE: Stream = Stream(u64::MAX);
/// Addresses whose blocks are found at once, a power of two.
const RECENT: usize = 64;

/// The number of a block, until it goes back to the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockNumber(u32);

/// All blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    all: Vec<Block>,
    numbers: BTreeMap<u64, BlockNumber>,
    /// Numbers without a block.
    vacant: Vec<BlockNumber>,
    /// The blocks that were found last, each where its address leads.
    recent: [(u64, BlockNumber); RECENT],
}

#[derive(Clone, Copy, Debug)]
struct Block {
    address: u64,
    bytes: usize,
    /// The stream of a block in use; `NONE` for a free one.
    stream: Stream,
}

impl Default for Blocks {
    fn default() -> Blocks {
        let recent = [(0, BlockNumber(0)); RECENT];
        Blocks { all: vec![], numbers: BTreeMap::new(), vacant: vec![], recent }
    }
}

/// The place of an address among the recent ones. Blocks are far apart, often by powers of two.
fn place(address: u64) -> usize {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    (address.wrapping_mul(GOLDEN) >> (u64::BITS - RECENT.ilog2())) as usize
}

impl Blocks {
    /// Adds a block, which is free.
    pub(crate) fn add(&mut self, address: u64, bytes: usize) -> BlockNumber {
        let block = Block { address, bytes, stream: NONE };
        let number = self.vacant.pop().unwrap_or(BlockNumber(self.all.len() as u32));
        match self.all.get_mut(number.0 as usize) {
            Some(place) => *place = block,
            None => self.all.push(block),
        }
        self.numbers.insert(address, number);
        number
    }

    /// Takes out a free block; returns its address and bytes.
    pub(crate) fn remove(&mut self, number: BlockNumber) -> (u64, usize) {
        let Block { address, bytes, .. } = self.all[number.0 as usize];
        self.numbers.remove(&address);
        self.recent[place(address)] = (0, BlockNumber(0));
        self.vacant.push(number);
        (address, bytes)
    }

    /// Gives a free block to a stream; returns its address.
    pub(crate) fn give(&mut self, number: BlockNumber, stream: Stream) -> u64 {
        let block = &mut self.all[number.0 as usize];
        block.stream = stream;
        block.address
    }

    /// Takes a block back: its number, bytes and stream. None where no such block is in use.
    pub(crate) fn take_back(&mut self, address: u64) -> Option<(BlockNumber, usize, Stream)> {
        let number = self.find(address)?;
        let block = &mut self.all[number.0 as usize];
        let stream = std::mem::replace(&mut block.stream, NONE);
        (stream != NONE).then_some((number, block.bytes, stream))
    }

    /// The stream of the block in use that holds an address.
    pub(crate) fn stream_of(&mut self, address: u64) -> Option<Stream> {
        let number = self.find(address).or_else(|| {
            let (_, number) = self.numbers.range(..=address).next_back()?;
            Some(*number)
        })?;
        let block = self.all[number.0 as usize];
        let holds = block.stream != NONE && address - block.address <= block.bytes as u64;
        holds.then_some(block.stream)
    }

    /// Gives what one stream uses to another.
    pub(crate) fn move_from(&mut self, from: Stream, to: Stream) {
        for block in self.all.iter_mut().filter(|block| block.stream == from) {
            block.stream = to;
        }
    }

    /// The block that begins at an address, which is not null.
    fn find(&mut self, address: u64) -> Option<BlockNumber> {
        let recent = &mut self.recent[place(address)];
        if recent.0 != address || address == 0 {
            *recent = (address, *self.numbers.get(&address)?);
        }
        Some(recent.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_blocks_that_are_there() {
        let (mut blocks, stream) = (Blocks::default(), Stream(7));
        let first = blocks.add(4096, 256);
        let second = blocks.add(8192, 512);
        assert_eq!((blocks.give(first, stream), blocks.stream_of(8192)), (4096, None));
        assert_eq!(
            [4095, 4096, 4352, 4353].map(|at| blocks.stream_of(at)),
            [None, Some(stream), Some(stream), None]
        );
        assert_eq!(blocks.take_back(4096), Some((first, 256, stream)));
        assert_eq!((blocks.take_back(4096), blocks.stream_of(4096)), (None, None), "it is free");
        assert_eq!((blocks.remove(first), blocks.stream_of(4096)), ((4096, 256), None));
        // Another block gets the number, and a third one the address.
        assert_eq!(blocks.add(16384, 1024), first);
        let third = blocks.add(4096, 768);
        blocks.give(third, Stream(8));
        blocks.move_from(Stream(8), stream);
        assert_eq!(
            (blocks.stream_of(4096 + 700), blocks.take_back(4096)),
            (Some(stream), Some((third, 768, stream)))
        );
        assert_eq!((blocks.stream_of(0), blocks.take_back(0)), (None, None));
        assert_eq!(blocks.give(second, stream), 8192);
    }
}
