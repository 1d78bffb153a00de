package warden_test

const processVMReadv = 270
