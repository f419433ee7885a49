// Package ocr reads the text of pages: images by tesseract, PDF files page by page
// after pdftoppm made images of them.
//
// What a document is, its first bytes say and never its name: tesseract takes a
// text file for a list of files to read. Pages are bounded in number and pixels
// before a program sees them. A blank page is a page without text, no failure.
package ocr
