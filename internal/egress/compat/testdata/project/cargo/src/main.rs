fn main() { println!("{}", dep::text()) }
