//! Deserialization of the tree into types. The requested type decides: `7` is a string if a string is requested, and `"7"` a
//! number if a number is requested.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::Fault;
use super::scalar::{Meaning, Scalar, Whole};
use super::tree::{Key, Kind, Node};

impl Node {
    fn scalar(&self, expected: &str) -> Result<&Scalar, Fault> {
        match &self.kind {
            Kind::Scalar(scalar) => Ok(scalar),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match &self.kind {
            Kind::Scalar(scalar) if scalar.is_null() => "nothing".to_owned(),
            Kind::Scalar(scalar) => format!("`{}`", scalar.text),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
        };
        Fault::unplaced(format!("expected {expected}, found {found}"))
    }

    fn whole<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        const EXPECTED: &str = "a whole number";
        match self.scalar(EXPECTED)?.whole() {
            Some(Whole::Positive(number)) => visitor.visit_u64(number),
            Some(Whole::Negative(number)) => visitor.visit_i64(number),
            None => Err(self.unexpected(EXPECTED)),
        }
    }

    fn float<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        const EXPECTED: &str = "a number";
        let number = self.scalar(EXPECTED)?.float();
        visitor.visit_f64(number.ok_or_else(|| self.unexpected(EXPECTED))?)
    }

    fn text(&self) -> Result<&str, Fault> {
        const EXPECTED: &str = "a text";
        let scalar = self.scalar(EXPECTED)?;
        if scalar.is_null() { Err(self.unexpected(EXPECTED)) } else { Ok(&scalar.text) }
    }
}

macro_rules! each_to {
    ($way:ident: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.$way(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    each_to!(whole: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64);
    each_to!(float: deserialize_f32 deserialize_f64);
    each_to!(deserialize_str: deserialize_string deserialize_char deserialize_identifier);
    forward_to_deserialize_any! { bytes byte_buf unit }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let scalar = match &self.kind {
            Kind::Scalar(scalar) => scalar,
            Kind::List(_) => return self.deserialize_seq(visitor),
            Kind::Map(_) => return self.deserialize_map(visitor),
        };
        match scalar.meaning() {
            Meaning::Null => visitor.visit_unit(),
            Meaning::Bool(is) => visitor.visit_bool(is),
            Meaning::Whole(Whole::Positive(number)) => visitor.visit_u64(number),
            Meaning::Whole(Whole::Negative(number)) => visitor.visit_i64(number),
            Meaning::Float(number) if number.is_finite() => visitor.visit_f64(number),
            Meaning::Float(_) => Err(self.unexpected("a number that is finite")),
            Meaning::Text(text) => visitor.visit_borrowed_str(text),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        const EXPECTED: &str = "true or false";
        let is = self.scalar(EXPECTED)?.boolean();
        visitor.visit_bool(is.ok_or_else(|| self.unexpected(EXPECTED))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.kind {
            Kind::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            _ => Err(self.unexpected("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.kind {
            Kind::Map(fields) => visitor.visit_map(Fields { rest: fields.iter(), current: None }),
            _ => Err(self.unexpected("a mapping")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    /// An enum is a string, or a map with one variant and its value.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if let Kind::Map(fields) = &self.kind
            && let [field] = fields.as_slice()
        {
            return visitor.visit_enum(VariantField(field));
        }
        let variant: StrDeserializer<'_, Fault> = self.text()?.into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|fault| fault.within(&format!("[{index}]"), item.at))
    }
}

struct Fields<'a> {
    rest: std::slice::Iter<'a, (Key, Node)>,
    current: Option<&'a (Key, Node)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        let name: StrDeserializer<'_, Fault> = key.text.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|fault| fault.within(&key.text, key.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, value) = self.current.ok_or_else(|| Fault::custom("value before its key"))?;
        seed.deserialize(value).map_err(|fault| fault.within(&key.text, value.at))
    }
}

/// An enum's variant, and its value.
struct VariantField<'a>(&'a (Key, Node));

impl<'de> EnumAccess<'de> for VariantField<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let Self((key, _)) = self;
        let variant: StrDeserializer<'_, Fault> = key.text.as_str().into_deserializer();
        let variant = seed.deserialize(variant).map_err(|fault| fault.within(&key.text, key.at));
        Ok((variant?, self))
    }
}

impl VariantField<'_> {
    fn with_place<T>(&self, read: Result<T, Fault>) -> Result<T, Fault> {
        let Self((key, value)) = self;
        read.map_err(|fault| fault.within(&key.text, value.at))
    }
}

impl<'de> VariantAccess<'de> for VariantField<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        let is_unit = self.0.1.is_null();
        self.with_place(if is_unit { Ok(()) } else { Err(self.0.1.unexpected("nothing")) })
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.with_place(seed.deserialize(&self.0.1))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.with_place(self.0.1.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.with_place(self.0.1.deserialize_map(visitor))
    }
}
