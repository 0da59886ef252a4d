//! Gray images: PNG in and out, and scaling to the size a model takes.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use png::{BitDepth, ColorType, Decoder, Encoder, Limits, Transformations};

/// The most pixels that a PNG file may claim (32 Mi); a header asks for more in a decompression bomb only.
pub const MAX_PIXELS: u64 = 32 << 20;

/// The most bytes that the PNG decoder may allocate for itself (64 MiB), besides the pixels.
const MAX_DECODER_BYTES: usize = 64 << 20;

/// How an image file shows its subject. A model trained on Fashion-MNIST knows light subjects on a dark ground only.
///
/// This is the user's to say (`--invert`), never guessed: a photo does not tell which of its halves is the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// As in Fashion-MNIST: pixels are kept, transparency becomes black.
    LightOnDark,
    /// As on paper: transparency becomes white, then every pixel is inverted.
    DarkOnLight,
}

/// An 8-bit gray image of at least one pixel, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrayImage {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl GrayImage {
    /// Makes an image of `width * height` pixels, row-major.
    ///
    /// # Errors
    /// A zero size, or a number of pixels that is not `width * height`.
    pub fn new(width: u32, height: u32, pixels: Vec<u8>) -> Result<GrayImage> {
        ensure!(width > 0 && height > 0, "expected an image of at least 1x1 pixels, found {width}x{height}");
        let expected = u64::from(width) * u64::from(height);
        ensure!(
            pixels.len() as u64 == expected,
            "expected {expected} pixels for an image of {width}x{height}, found {}",
            pixels.len()
        );
        Ok(GrayImage { width, height, pixels })
    }

    /// Width in pixels, at least 1.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in pixels, at least 1.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The `width * height` pixels, row-major: 0 is black, 255 white.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Scales to fit a square of `side` pixels, keeping the aspect ratio, centred on black.
    ///
    /// Shrinking averages over the area that each new pixel covers (a triangle filter as wide as two new pixels);
    /// growing interpolates linearly. An image that has the size already comes back unchanged.
    ///
    /// # Errors
    /// A `side` of zero, or one that makes more than [`MAX_PIXELS`] pixels.
    pub fn fit_square(&self, side: u32) -> Result<GrayImage> {
        let possible = side > 0 && u64::from(side) * u64::from(side) <= MAX_PIXELS;
        ensure!(possible, "cannot scale an image to {side}x{side} pixels, expected 1 to {MAX_PIXELS} pixels");
        let longest = self.width.max(self.height);
        let fit = |extent: u32| ((f64::from(extent) * f64::from(side) / f64::from(longest)).round() as u32).max(1);
        let (width, height) = (fit(self.width) as usize, fit(self.height) as usize);
        let scaled = self.resize(width, height);

        let side_px = side as usize;
        let (left, top) = ((side_px - width) / 2, (side_px - height) / 2);
        let mut pixels = vec![0; side_px * side_px];
        for (from, to) in scaled.chunks_exact(width).zip(pixels.chunks_exact_mut(side_px).skip(top)) {
            to[left..left + width].copy_from_slice(from);
        }
        GrayImage::new(side, side, pixels)
    }

    /// Separable resampling, rows first; gives `width * height` pixels.
    fn resize(&self, width: usize, height: usize) -> Vec<u8> {
        let across = taps(self.width as usize, width);
        let down = taps(self.height as usize, height);
        let mut rows = Vec::with_capacity(width * self.height as usize);
        for row in self.pixels.chunks_exact(self.width as usize) {
            rows.extend(across.iter().map(|tap| tap.apply(|at| f32::from(row[at]))));
        }
        let mut pixels = Vec::with_capacity(width * height);
        for tap in &down {
            pixels.extend((0..width).map(|x| tap.apply(|y| rows[y * width + x]).round() as u8));
        }
        pixels
    }
}

/// The old pixels that one new pixel is made of: the first one's index, and their weights, which sum to 1.
struct Tap {
    start: usize,
    weights: Vec<f32>,
}

impl Tap {
    fn apply(&self, pixel: impl Fn(usize) -> f32) -> f32 {
        self.weights.iter().enumerate().map(|(i, weight)| weight * pixel(self.start + i)).sum()
    }
}

/// Triangle-filter weights for resampling `from` pixels to `to`, pixel centres at half-integers. Both are at least 1.
fn taps(from: usize, to: usize) -> Vec<Tap> {
    let scale = from as f64 / to as f64;
    let radius = scale.max(1.0);
    let tap = |at: usize| {
        let centre = (at as f64 + 0.5) * scale;
        let start = ((centre - radius).floor().max(0.0) as usize).min(from - 1);
        let end = ((centre + radius).ceil() as usize).clamp(start + 1, from);
        let weight = |i: usize| (1.0 - ((i as f64 + 0.5 - centre) / radius).abs()).max(0.0);
        let sum: f64 = (start..end).map(weight).sum();
        Tap { start, weights: (start..end).map(|i| (weight(i) / sum) as f32).collect() }
    };
    (0..to).map(tap).collect()
}

/// Reads the PNG file at `path` as a gray image.
///
/// # Errors
/// A file that cannot be opened, or anything that [`decode_png`] refuses. The message begins with the path.
pub fn read_png(path: &Path, polarity: Polarity) -> Result<GrayImage> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
    decode_png(BufReader::new(file), polarity).with_context(|| format!("{name}: cannot read it as a PNG image"))
}

/// Decodes a PNG stream of any colour type and bit depth to 8-bit gray.
///
/// Colours become luma by Rec. 601 (0.299 R + 0.587 G + 0.114 B), 16-bit samples keep their high byte, and transparency
/// shows the ground that `polarity` says. Of an animation, the default image counts.
///
/// # Errors
/// Anything that is not a whole PNG image, more than [`MAX_PIXELS`] pixels, or chunks beyond the decoder's memory limit.
pub fn decode_png(source: impl BufRead + Seek, polarity: Polarity) -> Result<GrayImage> {
    let mut decoder = Decoder::new_with_limits(source, Limits { bytes: MAX_DECODER_BYTES });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let (width, height) = decoder.read_header_info()?.size();
    let count = u64::from(width) * u64::from(height);
    ensure!(count <= MAX_PIXELS, "it says {width}x{height} pixels, expected at most {MAX_PIXELS} pixels");

    let mut reader = decoder.read_info()?;
    let size = reader.output_buffer_size().context("its pixels do not fit in memory")?;
    let mut samples = vec![0; size];
    let frame = reader.next_frame(&mut samples)?;
    samples.truncate(frame.buffer_size());
    ensure!(frame.bit_depth == BitDepth::Eight, "expected 8-bit samples, found {:?}", frame.bit_depth);
    GrayImage::new(width, height, to_gray(&samples, frame.color_type, polarity)?)
}

fn to_gray(samples: &[u8], color: ColorType, polarity: Polarity) -> Result<Vec<u8>> {
    let ground = match polarity {
        Polarity::LightOnDark => 0,
        Polarity::DarkOnLight => 255,
    };
    let mut pixels: Vec<u8> = match color {
        ColorType::Grayscale => samples.to_vec(),
        ColorType::GrayscaleAlpha => samples.as_chunks().0.iter().map(|[v, a]| over(*v, *a, ground)).collect(),
        ColorType::Rgb => samples.as_chunks().0.iter().map(|[r, g, b]| luma(*r, *g, *b)).collect(),
        ColorType::Rgba => {
            samples.as_chunks().0.iter().map(|[r, g, b, a]| over(luma(*r, *g, *b), *a, ground)).collect()
        }
        ColorType::Indexed => bail!("its palette was not expanded"),
    };
    if polarity == Polarity::DarkOnLight {
        pixels.iter_mut().for_each(|pixel| *pixel = 255 - *pixel);
    }
    Ok(pixels)
}

/// Rec. 601 luma, rounded.
fn luma(r: u8, g: u8, b: u8) -> u8 {
    let sum = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b);
    ((sum + 500) / 1000) as u8
}

/// `value` with opacity `alpha` over `ground`, rounded.
fn over(value: u8, alpha: u8, ground: u8) -> u8 {
    let (value, alpha, ground) = (u32::from(value), u32::from(alpha), u32::from(ground));
    ((value * alpha + ground * (255 - alpha) + 127) / 255) as u8
}

/// Encodes an image as an 8-bit gray PNG file.
///
/// # Errors
/// What the PNG encoder refuses, such as a side above 2³¹ - 1.
pub fn encode_png(image: &GrayImage) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, image.width, image.height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&image.pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// The image as a `data:` URI that a page can show without a file.
///
/// # Errors
/// As [`encode_png`].
pub fn data_uri(image: &GrayImage) -> Result<String> {
    Ok(format!("data:image/png;base64,{}", STANDARD.encode(encode_png(image)?)))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// Encodes raw samples as a PNG of any kind.
    fn png(size: (u32, u32), color: ColorType, depth: BitDepth, palette: Option<&[u8]>, samples: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if let Some(palette) = palette {
            encoder.set_palette(palette);
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(samples).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<GrayImage> {
        decode_png(Cursor::new(bytes), Polarity::LightOnDark)
    }

    fn gray(width: u32, height: u32, pixels: &[u8]) -> GrayImage {
        GrayImage::new(width, height, pixels.to_vec()).unwrap()
    }

    #[test]
    fn reads_every_colour_type_and_depth() {
        use BitDepth::{Eight, Four, One, Sixteen, Two};
        use ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
        let palette: &[u8] = &[0, 0, 0, 255, 255, 255, 255, 0, 0];
        type Case<'a> = (ColorType, BitDepth, Option<&'a [u8]>, &'a [u8], [u8; 2]);
        let cases: &[Case<'_>] = &[
            (Grayscale, One, None, &[0b0100_0000], [0, 255]),
            (Grayscale, Two, None, &[0b0110_0000], [85, 170]),
            (Grayscale, Four, None, &[0x1f], [17, 255]),
            (Grayscale, Eight, None, &[7, 200], [7, 200]),
            (Grayscale, Sixteen, None, &[7, 1, 200, 255], [7, 200]),
            (GrayscaleAlpha, Eight, None, &[200, 255, 200, 51], [200, 40]),
            (GrayscaleAlpha, Sixteen, None, &[200, 0, 255, 0, 200, 0, 51, 0], [200, 40]),
            (Rgb, Eight, None, &[255, 0, 0, 0, 255, 0], [76, 150]),
            (Rgb, Sixteen, None, &[255, 9, 0, 9, 0, 9, 0, 9, 255, 9, 0, 9], [76, 150]),
            (Rgba, Eight, None, &[255, 255, 255, 0, 0, 0, 255, 255], [0, 29]),
            (Rgba, Sixteen, None, &[255, 0, 255, 0, 255, 0, 0, 0, 0, 0, 0, 0, 255, 0, 255, 0], [0, 29]),
            (Indexed, One, Some(palette), &[0b0100_0000], [0, 255]),
            (Indexed, Two, Some(palette), &[0b0110_0000], [255, 76]),
            (Indexed, Four, Some(palette), &[0x21], [76, 255]),
            (Indexed, Eight, Some(palette), &[2, 0], [76, 0]),
        ];
        for (color, depth, palette, samples, expected) in cases {
            let image = decode(&png((2, 1), *color, *depth, *palette, samples)).unwrap();
            assert_eq!(image, gray(2, 1, expected), "{color:?} {depth:?}");
        }
    }

    #[test]
    fn polarity_says_what_transparency_shows() {
        let bytes = png((2, 1), ColorType::GrayscaleAlpha, BitDepth::Eight, None, &[30, 0, 30, 255]);
        assert_eq!(decode_png(Cursor::new(&bytes), Polarity::LightOnDark).unwrap(), gray(2, 1, &[0, 30]));
        assert_eq!(decode_png(Cursor::new(&bytes), Polarity::DarkOnLight).unwrap(), gray(2, 1, &[0, 225]));
    }

    #[test]
    fn refuses_what_is_no_whole_png_with_the_file_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shirt.png");
        let whole = encode_png(&gray(9, 9, &[100; 81])).unwrap();
        let image_end = whole.len() - 12; // without IEND every pixel is there
        for end in 0..image_end {
            std::fs::write(&path, &whole[..end]).unwrap();
            let Err(error) = read_png(&path, Polarity::LightOnDark) else {
                // The checksums at the end carry no pixels; all pixels must be right, then.
                assert_eq!(decode(&whole[..end]).unwrap(), gray(9, 9, &[100; 81]));
                continue;
            };
            let message = format!("{error:#}");
            assert!(message.starts_with(&format!("{}: cannot read it", path.display())), "{message}");
            assert!(message.len() > path.display().to_string().len() + 40, "no reason in {message}");
        }
        let missing = read_png(&dir.path().join("none.png"), Polarity::LightOnDark).unwrap_err();
        assert!(format!("{missing:#}").contains("none.png: cannot open"), "{missing:#}");
    }

    #[test]
    fn refuses_a_decompression_bomb_by_its_header() {
        let mut bytes = encode_png(&gray(1, 1, &[0])).unwrap();
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        let message = format!("{:#}", decode(&bytes).unwrap_err());
        assert!(message.contains("60000x60000"), "{message}");
    }

    #[test]
    fn refuses_pixels_that_do_not_match_the_size() {
        assert!(GrayImage::new(0, 3, vec![]).is_err());
        assert!(GrayImage::new(2, 2, vec![1, 2, 3]).is_err());
        assert!(GrayImage::new(u32::MAX, u32::MAX, vec![1]).is_err());
    }

    #[test]
    fn fitting_averages_keeps_the_aspect_and_centres() {
        let checks: Vec<u8> = (0..16).map(|i| if i % 2 == 0 { 0 } else { 200 }).collect();
        let small = gray(4, 4, &checks).fit_square(1).unwrap();
        assert_eq!(small, gray(1, 1, &[100]));
        let wide = gray(4, 2, &[80; 8]).fit_square(2).unwrap();
        assert_eq!(wide, gray(2, 2, &[80, 80, 0, 0]));
        let sliver = gray(1, 300, &[255; 300]).fit_square(3).unwrap();
        assert_eq!(sliver, gray(3, 3, &[0, 255, 0, 0, 255, 0, 0, 255, 0]));
        let ramp = gray(2, 1, &[0, 100]).fit_square(4).unwrap();
        assert_eq!(&ramp.pixels()[4..8], &[0, 25, 75, 100]);
        assert!(ramp.fit_square(0).is_err() && ramp.fit_square(u32::MAX).is_err());
    }

    #[test]
    fn a_data_uri_holds_the_png() {
        let image = gray(2, 2, &[1, 2, 3, 4]);
        let uri = data_uri(&image).unwrap();
        let bytes = STANDARD.decode(uri.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
        assert_eq!(decode(&bytes).unwrap(), image);
    }

    fn any_image() -> impl Strategy<Value = GrayImage> {
        (1_u32..40, 1_u32..40).prop_flat_map(|(width, height)| {
            proptest::collection::vec(any::<u8>(), (width * height) as usize)
                .prop_map(move |pixels| GrayImage::new(width, height, pixels).unwrap())
        })
    }

    proptest! {
        #[test]
        fn encoding_round_trips(image in any_image()) {
            prop_assert_eq!(decode(&encode_png(&image).unwrap()).unwrap(), image);
        }

        #[test]
        fn fitting_stays_in_range_and_keeps_a_matching_size(image in any_image(), side in 1_u32..50) {
            let fitted = image.fit_square(side).unwrap();
            prop_assert_eq!((fitted.width(), fitted.height()), (side, side));
            prop_assert!(fitted.pixels().iter().max() <= image.pixels().iter().max());
            if (image.width(), image.height()) == (side, side) {
                prop_assert_eq!(fitted, image);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(decode(&bytes).is_err());
            let with_signature = [b"\x89PNG\r\n\x1a\n".as_slice(), &bytes].concat();
            let _ = decode(&with_signature);
        }

        #[test]
        fn a_damaged_file_never_panics(image in any_image(), at in any::<prop::sample::Index>(), value: u8) {
            let mut bytes = encode_png(&image).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = value;
            let _ = decode(&bytes);
        }

        /// As above with checksums that match, so that the damage reaches the decoder behind them.
        #[test]
        fn any_header_and_data_never_panic(header in any::<[u8; 5]>(), sizes in any::<[u8; 2]>(), data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let [depth, color, compression, filter, interlace] = header;
            let mut ihdr = vec![0, 0, 0, sizes[0], 0, 0, 0, sizes[1]];
            ihdr.extend([1 << (depth % 5), color % 7, compression % 2, filter % 2, interlace % 2]);
            let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
            for (kind, body) in [(b"IHDR", &ihdr), (b"PLTE", &data), (b"tRNS", &data), (b"IDAT", &data), (b"IEND", &vec![])] {
                bytes.extend((body.len() as u32).to_be_bytes());
                bytes.extend(kind);
                bytes.extend(body);
                let mut crc = flate2::Crc::new();
                crc.update(kind);
                crc.update(body);
                bytes.extend(crc.sum().to_be_bytes());
            }
            let _ = decode(&bytes);
        }
    }
}
