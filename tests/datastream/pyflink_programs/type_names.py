"""How types are written, which are equal, and what they tell of their fields."""

from pyflink.common import Types

TYPES = [
    Types.STRING(),
    Types.BYTE(),
    Types.BOOLEAN(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.CHAR(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW([Types.INT(), Types.STRING()]),
    Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.ROW([Types.LONG()])]),
    Types.TUPLE([Types.INT(), Types.LIST(Types.STRING())]),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(Types.INT()),
    Types.OBJECT_ARRAY(Types.STRING()),
    Types.MAP(Types.STRING(), Types.DOUBLE()),
    Types.LIST(Types.BOOLEAN()),
]


def main() -> None:
    for type_info in TYPES:
        print(type_info, repr(type_info))
    for index, type_info in enumerate(TYPES):
        print(index, [other for other, candidate in enumerate(TYPES) if candidate == type_info])
    row = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    print(row.get_field_names(), row.get_field_index("b"), [str(field) for field in row.get_field_types()])
    print(
        Types.ROW([Types.INT(), Types.INT()]).get_field_names(),
        [str(field) for field in Types.TUPLE([Types.INT()]).get_field_types()],
    )


if __name__ == "__main__":
    main()
