/// Inputs are cut to this length.
const LEN_MAX: usize = 1 << 16;
/// Changes to one input at most.
const CHANGES_MAX: usize = 6;

/// Bytes at which readers decide something.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff\"\\{}[],:%@/?#+&=. \n";

/// Numbers beyond one type or another.
const NUMBERS: &[&[u8]] = &[
    b"0",
    b"-1",
    b"255",
    b"65536",
    b"2147483648",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e999",
    b"0.5",
];

/// Makes inputs out of seeds.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// The same seed makes the same inputs.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below the limit; 0 below 0.
    fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.next() % limit).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A seed with some changes; `words` are worth putting in.
    pub fn input(&mut self, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = self.pick(seeds).cloned().unwrap_or_default();
        for _ in 0..self.below(CHANGES_MAX) {
            self.change(&mut bytes, seeds, words);
            bytes.truncate(LEN_MAX);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&[u8]]) {
        let at = self.below(bytes.len() + 1);
        let len = self.below(bytes.len() - at + 1).min(1 << self.below(12));
        match self.below(9) {
            0 => {
                let bit = 1 << self.below(8);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
            }
            1 => {
                let value = self.pick(BYTES).copied().unwrap_or_default();
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
            }
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let copy = bytes.get(at..at + len).unwrap_or_default().to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let word = self.pick(words).copied().unwrap_or_default();
                bytes.splice(at..at, word.iter().copied());
            }
            5 => {
                let other = self.pick(seeds).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            6 => bytes.truncate(at),
            7 => {
                let number = self.pick(NUMBERS).copied().unwrap_or_default();
                let digits =
                    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
                bytes.splice(at..at + digits, number.iter().copied());
            }
            // The same byte many times, as in depth.
            _ => {
                let byte = self.pick(BYTES).copied().unwrap_or_default();
                let count = 1 << self.below(10);
                bytes.splice(at..at, std::iter::repeat_n(byte, count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_inputs_again_and_hardly_one_twice() {
        let seeds = [b"pkg:npm/a@1".to_vec(), b"{\"a\":[1,2]}".to_vec(), Vec::new()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..500).map(|_| mutator.input(&seeds, &[b"word"])).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let distinct: std::collections::BTreeSet<_> = inputs(3).into_iter().collect();
        assert!(distinct.len() > 300, "{}", distinct.len());
        assert!(distinct.iter().all(|input| input.len() <= LEN_MAX));
    }
}
