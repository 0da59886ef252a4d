//! Fashion-MNIST: a small subset inside the program, or the full set from a directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::idx::{self, Images};

/// Height and width of every image.
pub const SIDE: usize = 28;

/// The names of the classes, by label.
pub const CLASS_NAMES: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

const CLASSES: u8 = CLASS_NAMES.len() as u8;

/// Which part of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// What a model learns from.
    Train,
    /// What its accuracy is measured on.
    Test,
}

impl Split {
    /// How the original file names begin.
    fn prefix(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Test => "t10k",
        }
    }

    fn images_name(self) -> String {
        format!("{}-images-idx3-ubyte", self.prefix())
    }

    fn labels_name(self) -> String {
        format!("{}-labels-idx1-ubyte", self.prefix())
    }

    /// The compressed images and labels of the subset that is part of the program.
    fn embedded(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Split::Train => (
                include_bytes!("../../data/fashion-mnist/train-images-idx3-ubyte.gz"),
                include_bytes!("../../data/fashion-mnist/train-labels-idx1-ubyte.gz"),
            ),
            Split::Test => (
                include_bytes!("../../data/fashion-mnist/t10k-images-idx3-ubyte.gz"),
                include_bytes!("../../data/fashion-mnist/t10k-labels-idx1-ubyte.gz"),
            ),
        }
    }
}

/// Images with their labels, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// `count * rows * cols` pixels, row-major, 0 (background) to 255.
    pub images: Vec<u8>,
    /// `count` labels: indices into [`CLASS_NAMES`].
    pub labels: Vec<u8>,
    /// Height of each image: [`SIDE`].
    pub rows: usize,
    /// Width of each image: [`SIDE`].
    pub cols: usize,
    /// How many images there are.
    pub count: usize,
}

impl Dataset {
    /// Loads a split from `dir`, or the built-in subset (5,000 training and 1,000 test images) where there is no `dir`.
    ///
    /// A directory holds the four original files, compressed or not: `train-images-idx3-ubyte[.gz]`,
    /// `train-labels-idx1-ubyte[.gz]`, `t10k-images-idx3-ubyte[.gz]`, `t10k-labels-idx1-ubyte[.gz]`.
    ///
    /// # Errors
    /// A file that is missing, unreadable or damaged; images that are not 28x28 or none at all; labels above 9; images
    /// and labels that differ in number. The message names the file.
    pub fn load(dir: Option<&Path>, split: Split) -> Result<Dataset> {
        match dir {
            Some(dir) => Dataset::from_dir(dir, split),
            None => Dataset::embedded(split),
        }
    }

    fn embedded(split: Split) -> Result<Dataset> {
        let (images, labels) = split.embedded();
        let images_name = format!("the built-in {}.gz", split.images_name());
        let labels_name = format!("the built-in {}.gz", split.labels_name());
        let images = idx::read_images(&images_name, images)?;
        let labels = idx::read_labels(&labels_name, labels, CLASSES)?;
        Dataset::new(&images_name, images, &labels_name, labels)
    }

    fn from_dir(dir: &Path, split: Split) -> Result<Dataset> {
        let images_path = find(dir, &split.images_name())?;
        let labels_path = find(dir, &split.labels_name())?;
        let images = idx::open_images(&images_path)?;
        let labels = idx::open_labels(&labels_path, CLASSES)?;
        let name = |path: &Path| path.display().to_string();
        Dataset::new(&name(&images_path), images, &name(&labels_path), labels)
    }

    fn new(images_name: &str, images: Images, labels_name: &str, labels: Vec<u8>) -> Result<Dataset> {
        let Images { pixels, count, rows, cols } = images;
        ensure!(rows == SIDE && cols == SIDE, "{images_name}: expected {SIDE}x{SIDE} images, found {rows}x{cols}");
        ensure!(count > 0, "{images_name}: expected at least one image, found none");
        ensure!(
            labels.len() == count,
            "{labels_name}: expected {count} labels, one for each image of {images_name}, found {}",
            labels.len()
        );
        Ok(Dataset { images: pixels, labels, rows, cols, count })
    }

    /// The pixels of one image, or `None` where `index` is not below `count`.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        self.images.chunks_exact(self.rows * self.cols).nth(index)
    }
}

/// The path of a file in `dir` under its plain or its compressed name.
fn find(dir: &Path, name: &str) -> Result<PathBuf> {
    for path in [dir.join(name), dir.join(format!("{name}.gz"))] {
        match path.metadata() {
            Ok(meta) if meta.is_dir() => bail!("{}: expected a file, found a directory", path.display()),
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{}: cannot look at it", path.display())),
        }
    }
    bail!("{}: expected a file {name} or {name}.gz in this directory, found neither", dir.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes a test split of `count` images with the given side and labels.
    fn write(dir: &Path, count: u32, side: u32, labels: &[u8]) {
        let mut images = vec![0, 0, 8, 3];
        for size in [count, side, side] {
            images.extend(size.to_be_bytes());
        }
        images.extend((0..count * side * side).map(|i| i as u8));
        fs::write(dir.join("t10k-images-idx3-ubyte"), images).unwrap();
        let mut file = vec![0, 0, 8, 1];
        file.extend((labels.len() as u32).to_be_bytes());
        file.extend(labels);
        fs::write(dir.join("t10k-labels-idx1-ubyte"), file).unwrap();
    }

    fn error(dir: &Path) -> String {
        format!("{:#}", Dataset::load(Some(dir), Split::Test).unwrap_err())
    }

    #[test]
    fn the_built_in_subset_is_whole_and_balanced() {
        for (split, count) in [(Split::Train, 5000), (Split::Test, 1000)] {
            let data = Dataset::load(None, split).unwrap();
            assert_eq!((data.count, data.rows, data.cols), (count, 28, 28));
            assert_eq!(data.images.len(), count * 28 * 28);
            for class in 0..CLASSES {
                assert_eq!(data.labels.iter().filter(|label| **label == class).count(), count / 10);
            }
            let mean = data.images.iter().map(|pixel| f64::from(*pixel)).sum::<f64>() / data.images.len() as f64;
            assert!((60.0..90.0).contains(&mean), "mean pixel {mean}"); // 72.9 in the full training set
            assert!(data.image(count - 1).is_some() && data.image(count).is_none());
        }
    }

    #[test]
    fn the_splits_share_no_file() {
        let (train, test) = (Dataset::load(None, Split::Train).unwrap(), Dataset::load(None, Split::Test).unwrap());
        assert_ne!(train.image(0), test.image(0));
        assert_eq!(train.labels[0], 9); // an ankle boot comes first in the original, in both splits
        assert_eq!(test.labels[0], 9);
    }

    #[test]
    fn loads_a_directory_of_plain_and_compressed_files() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 2, 28, &[3, 9]);
        let data = Dataset::load(Some(dir.path()), Split::Test).unwrap();
        assert_eq!((data.count, data.labels.as_slice()), (2, [3, 9].as_slice()));
        assert_eq!(data.image(1).unwrap()[0], (28 * 28) as u8);

        let (images, labels) = Split::Test.embedded();
        fs::write(dir.path().join("train-images-idx3-ubyte.gz"), images).unwrap();
        fs::write(dir.path().join("train-labels-idx1-ubyte.gz"), labels).unwrap();
        let data = Dataset::load(Some(dir.path()), Split::Train).unwrap();
        assert_eq!(data, Dataset::load(None, Split::Test).unwrap());
    }

    #[test]
    fn says_which_file_is_wrong_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let missing = error(dir.path());
        assert!(missing.contains(&dir.path().display().to_string()), "{missing}");
        assert!(missing.contains("t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz"), "{missing}");

        write(dir.path(), 2, 28, &[3]);
        let disagree = error(dir.path());
        assert!(disagree.contains("t10k-labels-idx1-ubyte: expected 2 labels"), "{disagree}");
        assert!(disagree.ends_with("found 1"), "{disagree}");

        write(dir.path(), 1, 28, &[10]);
        assert!(error(dir.path()).ends_with("expected labels below 10, found 10 at index 0"));
        write(dir.path(), 1, 27, &[1]);
        assert!(error(dir.path()).ends_with("expected 28x28 images, found 27x27"));
        write(dir.path(), 0, 28, &[]);
        assert!(error(dir.path()).ends_with("expected at least one image, found none"));

        fs::remove_file(dir.path().join("t10k-labels-idx1-ubyte")).unwrap();
        fs::create_dir(dir.path().join("t10k-labels-idx1-ubyte")).unwrap();
        assert!(error(dir.path()).ends_with("found a directory"));
    }
}
