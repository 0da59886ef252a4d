//! Reads IDX files (the format of MNIST and its successors) of unsigned bytes, plain or gzip-compressed.
//!
//! The layout is two zero bytes, an element type (`0x08` for unsigned bytes), the rank, one big-endian 32-bit size
//! per axis, then the elements, row-major. Nothing that a header claims is believed before the bytes are there:
//! memory grows with the data read, up to [`MAX_BYTES`].

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::bufread::MultiGzDecoder;

/// The most bytes of elements that a file may hold: 1 GiB, about 20 times the full MNIST training set.
pub const MAX_BYTES: usize = 1 << 30;

const UNSIGNED_BYTE: u8 = 0x08;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Gray images of one size, one after the other, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// `count * rows * cols` pixels.
    pub pixels: Vec<u8>,
    /// How many images there are; may be zero.
    pub count: usize,
    /// Height of each image, at least 1.
    pub rows: usize,
    /// Width of each image, at least 1.
    pub cols: usize,
}

/// Reads the rank-3 IDX file at `path` as images.
///
/// # Errors
/// A file that cannot be opened, or anything that [`read_images`] refuses. The message begins with the path.
pub fn open_images(path: &Path) -> Result<Images> {
    read_images(&path.display().to_string(), open(path)?)
}

/// Reads the rank-1 IDX file at `path` as labels below `classes`.
///
/// # Errors
/// A file that cannot be opened, or anything that [`read_labels`] refuses. The message begins with the path.
pub fn open_labels(path: &Path, classes: u8) -> Result<Vec<u8>> {
    read_labels(&path.display().to_string(), open(path)?, classes)
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("{}: cannot open", path.display()))
}

/// Reads a rank-3 IDX stream as images. `name` stands for the file in messages.
///
/// # Errors
/// A damaged or truncated gzip stream, a header that is not of unsigned bytes with rank 3, empty images, more than
/// [`MAX_BYTES`] of pixels, fewer or more pixels than the header says.
pub fn read_images(name: &str, source: impl Read) -> Result<Images> {
    let ([count, rows, cols], pixels) = read(source).with_context(|| name.to_owned())?;
    ensure!(rows > 0 && cols > 0, "{name}: expected images of at least 1x1 pixels, found {rows}x{cols}");
    Ok(Images { pixels, count, rows, cols })
}

/// Reads a rank-1 IDX stream as labels, each below `classes`. `name` stands for the file in messages.
///
/// # Errors
/// As [`read_images`], with rank 1; and a label that is not below `classes`.
pub fn read_labels(name: &str, source: impl Read, classes: u8) -> Result<Vec<u8>> {
    let ([_], labels) = read(source).with_context(|| name.to_owned())?;
    if let Some((index, label)) = labels.iter().enumerate().find(|(_, label)| **label >= classes) {
        bail!("{name}: expected labels below {classes}, found {label} at index {index}");
    }
    Ok(labels)
}

/// Reads header and elements, through gzip where the stream begins with its magic number.
fn read<const RANK: usize>(mut source: impl Read) -> Result<([usize; RANK], Vec<u8>)> {
    let mut start = Vec::new();
    source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
    let whole = Cursor::new(start.clone()).chain(source);
    if start == GZIP_MAGIC {
        read_plain(MultiGzDecoder::new(BufReader::new(whole))).context("in its gzip-compressed content")
    } else {
        read_plain(whole)
    }
}

fn read_plain<const RANK: usize>(mut source: impl Read) -> Result<([usize; RANK], Vec<u8>)> {
    let magic: [u8; 4] = header_word(&mut source, "the magic number")?;
    check_magic::<RANK>(magic)?;
    let mut sizes = [0_usize; RANK];
    for (axis, size) in sizes.iter_mut().enumerate() {
        let word = header_word(&mut source, &format!("the size of axis {axis}"))?;
        *size = usize::try_from(u32::from_be_bytes(word)).context("a size does not fit this machine")?;
    }
    let expected = sizes
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size))
        .filter(|bytes| *bytes <= MAX_BYTES)
        .with_context(|| format!("the header says sizes {sizes:?}, expected at most {MAX_BYTES} bytes together"))?;
    Ok((sizes, read_exactly(source, expected)?))
}

fn header_word(source: &mut impl Read, what: &str) -> Result<[u8; 4]> {
    let mut bytes = Vec::new();
    source.by_ref().take(4).read_to_end(&mut bytes).with_context(|| format!("cannot read {what}"))?;
    let found = bytes.len();
    <[u8; 4]>::try_from(bytes)
        .ok()
        .with_context(|| format!("truncated in the header: expected 4 bytes for {what}, found {found}"))
}

fn check_magic<const RANK: usize>(magic: [u8; 4]) -> Result<()> {
    let [zero, zero2, element, rank] = magic;
    ensure!(
        [zero, zero2] == [0, 0],
        "not an IDX file: expected magic number 00 00 {UNSIGNED_BYTE:02x} {RANK:02x}, found {}",
        magic.map(|byte| format!("{byte:02x}")).join(" ")
    );
    ensure!(
        element == UNSIGNED_BYTE,
        "expected elements of type 0x{UNSIGNED_BYTE:02x} (unsigned byte), found type 0x{element:02x}"
    );
    ensure!(usize::from(rank) == RANK, "expected rank {RANK} ({}), found rank {rank}", rank_use(RANK));
    Ok(())
}

fn rank_use(rank: usize) -> &'static str {
    if rank == 1 { "labels" } else { "images" }
}

/// Reads `expected` bytes and makes sure that the stream ends there. Asking for one byte more also makes the gzip
/// decoder verify its checksum.
fn read_exactly(source: impl Read, expected: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = expected as u64 + 1;
    let read = source.take(limit).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read all of the {expected} bytes of elements"))?;
    let found = bytes.len();
    ensure!(found >= expected, "truncated: expected {expected} bytes of elements, found {found}");
    ensure!(found == expected, "trailing bytes: expected the file to end after {expected} bytes of elements");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn idx(element: u8, sizes: &[u32], elements: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, element, sizes.len() as u8];
        for size in sizes {
            bytes.extend(size.to_be_bytes());
        }
        bytes.extend(elements);
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn images_error(bytes: &[u8]) -> String {
        format!("{:#}", read_images("some/file", bytes).unwrap_err())
    }

    #[track_caller]
    fn assert_refused(bytes: &[u8], words: &[&str]) {
        let message = images_error(bytes);
        assert!(message.starts_with("some/file: "), "{message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }

    #[test]
    fn reads_images_plain_and_compressed() {
        let bytes = idx(8, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        let expected = Images { pixels: vec![1, 2, 3, 4, 5, 6], count: 2, rows: 1, cols: 3 };
        assert_eq!(read_images("f", bytes.as_slice()).unwrap(), expected);
        assert_eq!(read_images("f", gzip(&bytes).as_slice()).unwrap(), expected);
    }

    #[test]
    fn reads_a_file_without_images() {
        let images = read_images("f", idx(8, &[0, 28, 28], &[]).as_slice()).unwrap();
        assert_eq!((images.count, images.pixels.len()), (0, 0));
    }

    #[test]
    fn reads_concatenated_gzip_members() {
        let bytes = idx(8, &[1, 1, 3], &[1, 2, 3]);
        let (left, right) = bytes.split_at(10);
        let members = [gzip(left), gzip(right)].concat();
        assert_eq!(read_images("f", members.as_slice()).unwrap().pixels, [1, 2, 3]);
    }

    #[test]
    fn reads_labels_and_refuses_those_out_of_range() {
        assert_eq!(read_labels("f", idx(8, &[3], &[0, 9, 4]).as_slice(), 10).unwrap(), [0, 9, 4]);
        let error = read_labels("f", idx(8, &[3], &[0, 10, 4]).as_slice(), 10).unwrap_err();
        assert_eq!(format!("{error:#}"), "f: expected labels below 10, found 10 at index 1");
    }

    #[test]
    fn refuses_wrong_headers() {
        assert_refused(b"PNG\x01", &["not an IDX file", "00 00 08 03", "50 4e 47 01"]);
        assert_refused(&idx(0x0d, &[1, 1, 1], &[0; 4]), &["0x08 (unsigned byte)", "0x0d"]);
        assert_refused(&idx(8, &[1], &[0]), &["expected rank 3 (images)", "found rank 1"]);
        assert_refused(&idx(8, &[1, 0, 28], &[]), &["at least 1x1", "0x28"]);
    }

    #[test]
    fn refuses_every_truncation() {
        let whole = idx(8, &[2, 2, 2], &[7; 8]);
        let compressed = gzip(&whole);
        for end in 0..whole.len() {
            assert_refused(&whole[..end], &["truncated", "expected", "found"]);
        }
        for end in 2..compressed.len() {
            assert_refused(&compressed[..end], &["gzip"]);
        }
    }

    #[test]
    fn refuses_trailing_bytes() {
        let mut bytes = idx(8, &[1, 2, 2], &[7; 5]);
        assert_refused(&bytes, &["trailing bytes", "after 4 bytes"]);
        assert_refused(&gzip(&bytes), &["trailing bytes"]);
        bytes.pop();
        let mut compressed = gzip(&bytes);
        compressed.extend(b"x");
        assert_refused(&compressed, &["gzip"]);
    }

    #[test]
    fn refuses_damage_inside_gzip() {
        let good = gzip(&idx(8, &[1, 4, 4], &[9; 16]));
        let checksum = good.len() - 8;
        let mut bad = good.clone();
        bad[checksum] ^= 1;
        assert_refused(&bad, &["gzip", "cannot read all of the 16 bytes"]);
    }

    #[test]
    fn believes_no_size_before_the_data() {
        assert_refused(&idx(8, &[u32::MAX, u32::MAX, u32::MAX], &[]), &["at most 1073741824 bytes"]);
        assert_refused(&idx(8, &[u32::MAX, 1, 1], &[]), &["at most 1073741824 bytes"]);
        // Allowed by the limit, absent in the file: fails on what is there, without a gigabyte of memory.
        assert_refused(&idx(8, &[1 << 20, 32, 32], &[1, 2]), &["truncated", "found 2"]);
    }

    #[test]
    fn names_a_missing_file() {
        let error = open_images(Path::new("/no/such/file")).unwrap_err();
        assert!(format!("{error:#}").starts_with("/no/such/file: cannot open"), "{error:#}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_images("f", bytes.as_slice());
            let _ = read_labels("f", bytes.as_slice(), 10);
            let _ = read_images("f", gzip(&bytes).as_slice());
        }

        #[test]
        fn no_sizes_panic(sizes in any::<[u32; 3]>(), elements in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes = idx(8, &sizes, &elements);
            if let Ok(images) = read_images("f", bytes.as_slice()) {
                prop_assert_eq!(images.pixels.len(), images.count * images.rows * images.cols);
            }
        }

        #[test]
        fn a_flipped_byte_never_panics(at in 0_usize..60, bit in 0_u8..8) {
            let mut bytes = gzip(&idx(8, &[2, 3, 3], &[3; 18]));
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let _ = read_images("f", bytes.as_slice());
        }

        #[test]
        fn round_trips(rows in 1_u32..5, cols in 1_u32..5, pixels in proptest::collection::vec(any::<u8>(), 0..60)) {
            let size = (rows * cols) as usize;
            let count = pixels.len() / size;
            let pixels = &pixels[..count * size];
            let images = read_images("f", idx(8, &[count as u32, rows, cols], pixels).as_slice()).unwrap();
            prop_assert_eq!((images.pixels.as_slice(), images.count), (pixels, count));
        }
    }
}
