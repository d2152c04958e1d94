from support.postgres import PostgresServer


def test_each_test_meets_an_empty_database_of_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    other = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    import psycopg  # there is no server to test without it

    here = postgres_url.replace("+psycopg", "")
    assert here != other
    with psycopg.connect(here) as connection:
        connection.execute("CREATE TABLE mark (x int)")
    with psycopg.connect(other) as connection:
        found = connection.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'mark'")
        assert found.fetchone() == (0,)
