//! What is bound to a statement.
//!
//! Takes the types that rows are written from, gives one value that both databases understand: whole numbers, texts and
//! bytes, each of them or NULL. A yes or no is 1 or 0. A NULL knows what it is the absence of, since PostgreSQL asks.

/// A value that is about to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A whole number, a time, or a yes or no.
    Int(Option<i64>),
    /// A text.
    Text(Option<String>),
    /// Bytes.
    Blob(Option<Vec<u8>>),
}

/// What can be bound.
pub(crate) trait Bind {
    /// Its absence.
    const NULL: Value;

    /// The value.
    fn value(self) -> Value;
}

impl Bind for i64 {
    const NULL: Value = Value::Int(None);

    fn value(self) -> Value {
        Value::Int(Some(self))
    }
}

impl Bind for u32 {
    const NULL: Value = Value::Int(None);

    fn value(self) -> Value {
        Value::Int(Some(self.into()))
    }
}

impl Bind for bool {
    const NULL: Value = Value::Int(None);

    fn value(self) -> Value {
        Value::Int(Some(self.into()))
    }
}

impl Bind for String {
    const NULL: Value = Value::Text(None);

    fn value(self) -> Value {
        Value::Text(Some(self))
    }
}

impl Bind for &str {
    const NULL: Value = Value::Text(None);

    fn value(self) -> Value {
        Value::Text(Some(self.to_owned()))
    }
}

impl Bind for Vec<u8> {
    const NULL: Value = Value::Blob(None);

    fn value(self) -> Value {
        Value::Blob(Some(self))
    }
}

impl Bind for &[u8] {
    const NULL: Value = Value::Blob(None);

    fn value(self) -> Value {
        Value::Blob(Some(self.to_vec()))
    }
}

impl<T: Bind> Bind for Option<T> {
    const NULL: Value = T::NULL;

    fn value(self) -> Value {
        self.map_or(T::NULL, T::value)
    }
}

impl<T: Bind + Clone> Bind for &T {
    const NULL: Value = T::NULL;

    fn value(self) -> Value {
        self.clone().value()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bind, Value};

    #[test]
    fn absence_keeps_its_kind() {
        assert_eq!(None::<bool>.value(), Value::Int(None));
        assert_eq!(None::<&str>.value(), Value::Text(None));
        assert_eq!(
            (&Some("x".to_owned())).value(),
            Value::Text(Some("x".into()))
        );
        assert_eq!(None::<Vec<u8>>.value(), Value::Blob(None));
        assert_eq!(Some(true).value(), Value::Int(Some(1)));
    }
}
