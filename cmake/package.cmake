# `cmake --install` and the Debian package: `cpack -G DEB` in a release build's folder. What lies in packaging/ is
# installed as it is; manual pages are made from the help texts where help2man is there.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # only the program is installed; tests need not be built for it

install(TARGETS millrace RUNTIME)
install(FILES packaging/systemd/millrace.service packaging/systemd/millrace.socket DESTINATION lib/systemd/system)
install(FILES packaging/debian/millrace.default DESTINATION /etc/default RENAME millrace)
install(FILES packaging/debian/copyright README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/grafana/millrace.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/grafana)

find_program(HELP2MAN help2man)
if(HELP2MAN)
  set(man_pages ${PROJECT_BINARY_DIR}/man)
  install(CODE "execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/packaging/man_pages.sh\" \"${man_pages}\" ${PROJECT_VERSION}
                                COMMAND_ERROR_IS_FATAL ANY)")
  install(DIRECTORY ${man_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VENDOR "the Millrace authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "engine and server for large language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"One program that runs GGUF and safetensors models on the CPU and serves
them over HTTP, with the OpenAI and Anthropic APIs and Prometheus metrics.
The service is started once its model is set in /etc/default/millrace.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the Millrace authors <millrace@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION misc)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, python3-pip")  # `millrace fetch` uses pip
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(file conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/${file})
endforeach()
include(CPack)
