// A82: C++ with the standard library, a thread and an exception.
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

int main() {
	std::map<std::string, int> m;
	std::thread([&] { m["answer"] = 42; }).join();
	try {
		m.at("none");
	} catch (const std::out_of_range &) {
		std::cout << "C++ " << m["answer"] << std::endl;
	}
}
