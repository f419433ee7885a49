module macbatch

go 1.26
