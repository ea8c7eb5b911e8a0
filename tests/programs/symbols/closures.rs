// Generics, traits, closures in closures, methods in types, enums and modules.
use std::collections::BTreeMap;
use std::fmt::Display;

mod shop {
    pub struct Store<T> {
        pub items: Vec<T>,
    }

    impl<T: Clone + std::fmt::Debug> Store<T> {
        #[inline(never)]
        pub fn add(&mut self, item: T) -> usize {
            self.items.push(item);
            self.items.len()
        }

        #[inline(always)]
        pub fn each<F: FnMut(&T) -> usize>(&self, mut f: F) -> usize {
            self.items.iter().map(|item| f(item)).sum()
        }
    }

    pub enum Shape {
        Square(f64),
        Circle { radius: f64 },
    }

    impl Shape {
        #[inline(never)]
        pub fn area(&self) -> f64 {
            match self {
                Shape::Square(side) => side * side,
                Shape::Circle { radius } => std::f64::consts::PI * radius * radius,
            }
        }
    }
}

trait Describe {
    fn describe(&self) -> String;
}

impl<T: Display> Describe for T {
    #[inline(never)]
    fn describe(&self) -> String {
        format!("<{}>", self)
    }
}

#[inline(never)]
fn boxed(n: usize) -> Box<dyn Fn(usize) -> String> {
    Box::new(move |x| {
        let inner = |y: usize| -> String { (0..y).map(|z| ((z + n) as u8 % 26 + 97) as char).collect() };
        inner(x) + &inner(x + 1)
    })
}

fn main() {
    let mut store = shop::Store { items: Vec::new() };
    let mut map = BTreeMap::new();
    for i in 0..std::env::args().count() + 10 {
        store.add(boxed(i)(i));
        map.insert(i, i.describe());
    }
    let shapes = [shop::Shape::Square(2.0), shop::Shape::Circle { radius: 1.5 }];
    let area: f64 = shapes.iter().map(|s| s.area()).sum();
    println!("{} {} {:.2}", store.each(|s| s.len()), map.values().map(String::len).sum::<usize>(), area);
}
