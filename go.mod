module maelys.dev/maelys

go 1.26.0
