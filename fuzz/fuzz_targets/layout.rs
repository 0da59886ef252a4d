//! Chains of layout changes: what is accepted stays inside the buffer and names as many elements as its shape has.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use ubique_core::{Layout, Shape};

fn step(layout: &Layout, data: &mut Unstructured<'_>) -> arbitrary::Result<Option<Layout>> {
    let rank = layout.shape().rank();
    let axis = data.int_in_range(0..=rank)?;
    let small = |data: &mut Unstructured<'_>| data.int_in_range(0..=6usize);
    Ok(match data.int_in_range(0..=4u8)? {
        0 => {
            let (start, step, len) = (small(data)?, data.int_in_range(-4..=4isize)?, small(data)?);
            layout.slice(axis, start, step, len).ok()
        }
        1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                axes.swap(i, data.int_in_range(0..=i)?);
            }
            Some(layout.permute(&axes))
        }
        2 => {
            let extra = small(data)?;
            let shape = std::iter::once(extra).chain(layout.shape().iter().map(|&n| if n == 1 { extra } else { n }));
            layout.expand(&shape.collect::<Shape>()).ok()
        }
        3 => layout.unfold(axis, small(data)?, small(data)?).ok(),
        _ => {
            let total = layout.elements();
            let first = small(data)?.max(1);
            match total.is_multiple_of(first) {
                true => {
                    let reshaped = layout.reshape(&Shape::from([first, total / first]));
                    if let Some(reshaped) = &reshaped {
                        assert!(reshaped.positions().eq(layout.positions()), "{layout:?} reshaped is {reshaped:?}");
                    }
                    reshaped
                }
                false => None,
            }
        }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut data = Unstructured::new(bytes);
    let mut layout = Layout::contiguous(Shape::from([3, 4, 5]));
    while let Ok(next) = step(&layout, &mut data) {
        if let Some(next) = next.filter(|next| next.elements() <= 4096 && next.shape().rank() <= 10) {
            assert_eq!(next.positions().len(), next.elements());
            assert!(next.positions().all(|position| position < 60), "{next:?} leaves the buffer");
            layout = next;
        }
        if data.is_empty() {
            break;
        }
    }
});
