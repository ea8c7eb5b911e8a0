# schema.sql as a C string, one literal a line.
1i const char store_schema[] =
s/[\\"]/\\&/g
s/.*/	"&\\n"/
$a ;
